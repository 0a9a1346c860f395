//! `hearth top` in a real terminal, by what the screen shows, and as text and JSON.

mod terminal;

use crate::harness;

use harness::{Mounted, Said, Transport, hearth, program, refused, said, shell, succeed, until};
use hearth_testing::threads::SetOnDrop;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use terminal::Terminal;

/// Reads and writes on `mounted` while `watch` runs: much of `hot.log`, `cold.log` once.
fn under_load(mounted: &Mounted, watch: impl FnOnce()) {
    fs::create_dir(mounted.at("logs")).unwrap();
    fs::write(mounted.at("logs/cold.log"), "once").unwrap();
    let hot = mounted.at("logs/hot.log");
    fs::write(&hot, vec![7; 3 << 20]).unwrap();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = SetOnDrop(&ended);
        scope.spawn(|| {
            let file = File::options().read(true).write(true).open(&hot).unwrap();
            let mut piece = [0; 4096];
            while !ended.load(Ordering::Relaxed) {
                file.read_at(&mut piece, 4096).unwrap();
                file.write_at(&piece, 8192).unwrap();
                let absent = fs::metadata(mounted.at("logs/absent"));
                assert!(absent.is_err());
                thread::sleep(Duration::from_micros(500));
            }
        });
        watch();
    });
}

fn busy() -> Mounted {
    Mounted::new(
        Transport::Dev,
        "heat=exact,attr_timeout=0,negative_timeout=0",
    )
}

/// The first words of the rows of the table.
fn names(lines: &[String]) -> Vec<String> {
    let rows = lines[4..lines.len() - 1].iter();
    rows.filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .collect()
}

/// The row of the table that begins with `name`, in words.
fn row(lines: &[String], name: &str) -> Option<Vec<String>> {
    let row = lines.iter().find(|line| line.starts_with(name))?;
    Some(row.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn a_screen_of_eighty_by_twenty_four_shows_what_happens_and_obeys_keys() {
    let mounted = busy();
    under_load(&mounted, || {
        let path = mounted.path().to_str().unwrap();
        let top = Terminal::new(&mounted, &format!("\"$HEARTH\" top -i 200ms {path}"));
        top.until("operations with a rate", |lines| {
            let is_busy = |name| row(lines, name).is_some_and(|row| row[1] != "-");
            lines.len() == 24
                && lines[0].starts_with("hearth top")
                && lines[1] == " 1 Operations  2 Tenants  3 Heat  4 Locks  5 Store"
                && lines[23].ends_with("? help  q quit")
                && is_busy("read ")
                && is_busy("write ")
        });
        // The failing lookups are told as such.
        top.until("lookups that fail", |lines| {
            row(lines, "lookup ").is_some_and(|row| row[2] != "-" && row[7].ends_with('%'))
        });
        top.press("S");
        let sorted = top.until("rows by name", |lines| lines[3].contains("OPERATION*"));
        let found = names(&sorted);
        assert!(found.is_sorted() && found.len() > 5, "{sorted:#?}");
        top.press("r");
        let reversed = top.until("the other way round", |lines| {
            lines[3].contains("OPERATION^")
        });
        assert!(names(&reversed).iter().rev().is_sorted(), "{reversed:#?}");
        top.press("/");
        top.press("writ");
        top.press("Enter");
        top.until("one row", |lines| names(lines) == ["write"]);
        top.press("Escape");
        top.until("all rows again", |lines| names(lines).len() > 5);
        freeze(&top);
        top.press("C-l");
        top.press("?");
        top.until("help", |lines| lines[3].starts_with("Tab, Left"));
        top.press("Escape");
        top.press("q");
        top.until_dead(0);
    });
}

fn freeze(top: &Terminal) {
    top.press("Space");
    let frozen = top.until("a frozen screen", |lines| lines[0].contains("FROZEN"));
    // Ten looks would have changed a total.
    thread::sleep(Duration::from_millis(700));
    assert_eq!(top.lines(), frozen);
    top.press("Space");
    top.until("a screen that goes on", |lines| {
        !lines[0].contains("FROZEN") && lines[4..] != frozen[4..]
    });
}

#[test]
fn each_tab_shows_its_own_and_another_size_is_drawn_anew() {
    let mounted = busy();
    succeed(
        hearth()
            .args(["quota", "set", "project:7", "--hard", "10M"])
            .arg(mounted.path()),
    );
    under_load(&mounted, || {
        succeed(
            hearth()
                .args(["quota", "project"])
                .arg(mounted.at("logs"))
                .arg("7"),
        );
        let path = mounted.path().to_str().unwrap();
        let top = Terminal::new(
            &mounted,
            &format!("\"$HEARTH\" top -i 200ms -t tenants {path}"),
        );
        let tenants = top.until("a project that is limited", |lines| {
            row(lines, "project:7 ").is_some_and(|row| row[1] != "-" && row[8] == "10M")
        });
        // 3 MiB and some pages of 10 MiB.
        let project = row(&tenants, "project:7").unwrap();
        assert_eq!(
            (&*project[7], &*project[9]),
            ("3.0M", "30%"),
            "{tenants:#?}"
        );
        top.press("3");
        let hot = top.until("the hot file first", |lines| {
            lines[2].starts_with("files: ") && row(lines, "/logs/hot.log").is_some()
        });
        assert_eq!(names(&hot)[0], "/logs/hot.log", "{hot:#?}");
        top.until("reads and writes a second", |lines| {
            row(lines, "/logs/hot.log").is_some_and(|row| row[2] != "-" && row[3] != "-")
        });
        // A locale without blocks: the first of three ranges is hot.
        let strip = row(&hot, "/logs/hot.log").unwrap().pop().unwrap();
        assert!(strip.len() == 3 && strip.starts_with('9'), "{strip}");
        top.press("v");
        top.until("ranges", |lines| {
            names(lines)
                .first()
                .is_some_and(|name| name == "/logs/hot.log")
                && lines[4].contains("+0M")
        });
        top.press("v");
        top.until("directories", |lines| {
            names(lines).contains(&"/logs".to_owned())
        });
        top.press("4");
        top.until("no profile", |lines| lines[2].contains("off and empty"));
        top.press("p");
        top.until("a profile", |lines| lines[2].starts_with("lock profile on"));
        top.press("5");
        top.until("facts", |lines| row(lines, "inodes ").is_some());
        top.resize(50, 12);
        top.until("a small screen", |lines| {
            lines.len() == 12 && lines[11].starts_with("s sort") && lines[0].len() <= 50
        });
        top.resize(20, 5);
        top.until("too small", |lines| lines[0] == "20x5 is too small");
        top.press("q");
        top.until_dead(0);
        let profile = fs::read_to_string(mounted.at(".hearth/locks.json")).unwrap();
        assert!(profile.contains("\"running\":false"), "{profile}");
    });
}

#[test]
fn a_mouse_opens_tabs_and_sorts_columns() {
    let mounted = busy();
    let path = mounted.path().to_str().unwrap();
    let top = Terminal::new(
        &mounted,
        &format!("\"$HEARTH\" top --mouse -i 200ms {path}"),
    );
    top.until("a screen", |lines| !names(lines).is_empty());
    top.click(3, 4);
    let sorted = top.until("rows by name", |lines| lines[3].contains("OPERATION*"));
    assert!(names(&sorted).is_sorted(), "{sorted:#?}");
    top.click(34, 2);
    top.until("locks", |lines| lines[2].contains("lock profile"));
    top.press("q");
    top.until_dead(0);
}

#[test]
fn a_terminal_without_colour_gets_none_and_one_with_gets_some() {
    let mounted = busy();
    under_load(&mounted, || {
        let path = mounted.path().to_str().unwrap();
        // 30 to 38 are colours, 39 is the terminal's own.
        let is_colour = |code: &str| code.starts_with(|c: char| ('0'..='8').contains(&c));
        let has_colour = |coded: &str| coded.split("\x1b[3").skip(1).any(is_colour);
        for (name, wanted) in [("", true), ("NO_COLOR=1 ", false)] {
            let top = Terminal::new(&mounted, &format!("{name}\"$HEARTH\" top -t heat {path}"));
            top.until("hot files", |lines| row(lines, "/logs/hot.log").is_some());
            let coded = top.coded();
            assert!(
                coded.contains("\x1b[7m") || coded.contains(";7m"),
                "{coded}"
            );
            assert_eq!(has_colour(&coded), wanted, "{coded:?}");
            top.press("q");
            top.until_dead(0);
        }
    });
    for typed in ["TERM=dumb", "TERM="] {
        let path = mounted.path().display();
        let script = format!("{typed} \"$HEARTH\" top {path}; echo status $?; sleep 100");
        let top = Terminal::new(&mounted, &script);
        let lines = top.until("the shell", |lines| lines.concat().contains("status 2"));
        let said = without_spaces(&lines.concat());
        assert!(
            said.contains("TERMisdumb") && said.contains("--once"),
            "{lines:#?}"
        );
    }
}

#[test]
fn it_ends_with_its_terminal_also_where_hangups_are_ignored() {
    let mounted = busy();
    let path = mounted.path().to_str().unwrap();
    for ignored in ["", "trap '' HUP; "] {
        let top = Terminal::new(&mounted, &format!("{ignored}exec \"$HEARTH\" top {path}"));
        top.until("a screen", |lines| lines[1].starts_with(" 1 Operations"));
        let pid = top.process();
        top.hang_up();
        until("it ends", || !Path::new(&format!("/proc/{pid}")).exists());
    }
}

#[test]
fn signals_and_the_end_of_the_mount_leave_the_terminal_as_it_was() {
    let mounted = busy();
    let path = mounted.path().to_str().unwrap();
    let script = format!("\"$HEARTH\" top {path}; echo status $?; stty -a; sleep 100");
    let until_given_back = |top: &Terminal, status: &str| {
        // What stty(1) says comes a moment behind the status.
        let lines = top.until("the shell again, which echoes", |lines| {
            let all = lines.join(" ");
            all.contains(status) && all.contains(" echo ")
        });
        assert!(!top.is_alternate(), "{lines:#?}");
        lines
    };
    let top = Terminal::new(&mounted, &script);
    top.until("a screen", |lines| lines[1].starts_with(" 1 Operations"));
    assert!(top.is_alternate());
    succeed(program("kill").arg(top_below(&mounted).to_string()));
    until_given_back(&top, "status 143");
    drop(top);
    // Ctrl-Z leaves it to a shell with jobs, which goes on with it.
    let jobs = format!("set -m; \"$HEARTH\" top {path}; echo away; read -r line; fg >/dev/null");
    let top = Terminal::new(&mounted, &format!("exec bash -c '{jobs}'"));
    top.until("a screen", |lines| lines[1].starts_with(" 1 Operations"));
    top.press("C-z");
    top.until("the shell", |lines| lines.concat().contains("away"));
    assert!(!top.is_alternate());
    top.press("Enter");
    top.until("the screen again", |lines| {
        lines[1].starts_with(" 1 Operations")
    });
    top.press("q");
    top.until_dead(0);
    drop(top);
    for killed in [false, true] {
        let top = Terminal::new(&mounted, &script);
        top.until("a screen", |lines| lines[1].starts_with(" 1 Operations"));
        let remedy = match killed {
            true => {
                let daemon = fs::read_to_string(mounted.at(".hearth/pid")).unwrap();
                succeed(program("kill").args(["-9", daemon.trim()]));
                "its daemon has ended; 'hearth umount /"
            }
            false => {
                mounted.unmount();
                "it was unmounted"
            }
        };
        let lines = until_given_back(&top, "status 1");
        // The screen breaks lines anywhere, and a space at their end is not seen.
        let said = without_spaces(&lines.concat());
        let all = ["the mount has ended", remedy];
        assert!(
            all.map(without_spaces)
                .iter()
                .all(|part| said.contains(part)),
            "{lines:#?}"
        );
        if killed {
            refused(
                "dead",
                &top_once(mounted.path()),
                1,
                &["daemon has ended", "hearth umount"],
            );
            succeed(hearth().arg("umount").arg(mounted.path()));
        }
        mounted.mount_again(Transport::Dev, "heat=exact");
    }
}

fn without_spaces(text: &str) -> String {
    text.replace(' ', "")
}

/// The process `hearth top` of this mount.
fn top_below(mounted: &Mounted) -> u32 {
    let is_top = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"top")
    };
    let pids = harness::pids_naming(mounted.path());
    pids.into_iter().find(is_top).expect("it runs")
}

fn top_once(path: &Path) -> Said {
    said(hearth().args(["top", "--once", "-i", "200ms"]).arg(path))
}

#[test]
fn text_has_hot_files_first_and_json_has_all_parts() {
    let mounted = busy();
    under_load(&mounted, || {
        until("heat of the file", || {
            let text = top_once(mounted.path()).out;
            text.lines()
                .nth(4)
                .is_some_and(|line| line.starts_with("/logs/hot.log "))
        });
        let text = top_once(mounted.path()).out;
        let heads: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|s| s.0)
            .collect();
        assert_eq!(
            heads[1..],
            ["HEAT", "OPERATIONS", "TENANTS", "LOCKS", "STORE"],
            "{text}"
        );
        // A note may have a long path in it.
        let mut rows = text.lines().skip(1).filter(|line| !line.contains(": "));
        assert!(rows.all(|line| line.chars().count() <= 80), "{text}");
        let json = succeed(
            hearth()
                .args(["top", "--json", "-i", "200ms"])
                .arg(mounted.path()),
        );
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let reads = json["operations"]
            .as_array()
            .unwrap()
            .iter()
            .find(|op| op["op"] == "read");
        assert!(
            reads.unwrap()["ops_per_second"].as_f64().unwrap() > 10.0,
            "{json:#}"
        );
        assert_eq!(
            json["heat"]["files"][0]["path"],
            mounted.at("logs/hot.log").to_str().unwrap()
        );
        assert!(
            json["heat"]["files"][0]["now"]["reads_per_second"]
                .as_f64()
                .unwrap()
                > 10.0
        );
        assert!(json["heat"]["ranges"].is_array() && json["heat"]["directories"].is_array());
        assert_eq!(json["tenants"][0]["tenant"], "user:root");
        assert_eq!(json["volume"]["store"], serde_json::Value::Null);
        assert_eq!(json["errors"], serde_json::json!({}));
    });
}

#[test]
fn a_store_shows_its_commits_and_its_room() {
    let mounted = Mounted::new(Transport::Dev, "create,commit=1000");
    let store = || {
        let json = succeed(
            hearth()
                .args(["top", "--json", "-t", "store"])
                .arg(mounted.path()),
        );
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["volume"]["store"].clone()
    };
    fs::write(mounted.at("file"), vec![7; 1 << 20]).unwrap();
    let before = store();
    assert!(
        before["dirty_bytes"].as_f64().unwrap() >= f64::from(1 << 20),
        "{before:#}"
    );
    succeed(hearth().arg("sync").arg(mounted.path()));
    let after = store();
    assert!(
        after["commits"].as_u64() > before["commits"].as_u64(),
        "{before:#} {after:#}"
    );
    assert!(
        after["dirty_bytes"].as_f64().unwrap() < f64::from(1 << 20),
        "{after:#}"
    );
    let [size, free] = ["size_bytes", "free_bytes"].map(|name| after[name].as_f64().unwrap());
    assert!(free > 0.0 && free < size, "{after:#}");
}

#[test]
fn what_is_no_mount_of_ours_is_refused_in_one_line() {
    let mounted = busy();
    let plain = mounted.outside("plain");
    refused(
        "plain",
        &top_once(&plain),
        1,
        &["not on a Hearth mount", "findmnt"],
    );
    refused(
        "missing",
        &top_once(&plain.join("missing")),
        1,
        &["does not exist", "findmnt"],
    );
    let said_of = |typed: &str| {
        said(&mut shell(
            &plain,
            &typed.replace("@", hearth().get_program().to_str().unwrap()),
        ))
    };
    let no_terminal = said_of(&format!("@ top {}", mounted.path().display()));
    refused(
        "no terminal",
        &no_terminal,
        2,
        &["no terminal", "--once", "--json"],
    );
    let nonsense = said_of(&format!("@ top -i soon {}", mounted.path().display()));
    refused("nonsense", &nonsense, 2, &["soon", "10m"]);
    let foreign = mounted.outside("foreign");
    succeed(program("bindfs").arg(&plain).arg(&foreign));
    let said = top_once(&foreign);
    succeed(program("umount").arg(&foreign));
    refused(
        "foreign",
        &said,
        1,
        &["lies on fuse", "not on a Hearth mount"],
    );
    // A tree that has such a directory hides ours.
    fs::create_dir(plain.join(".hearth")).unwrap();
    let over = mounted.outside("over");
    succeed(
        hearth()
            .arg("mount")
            .arg(format!("host:{}", plain.display()))
            .arg(&over),
    );
    let said = top_once(&over);
    succeed(hearth().arg("umount").arg(&over));
    refused("hidden", &said, 1, &[".hearth/stats", "rename"]);
}
