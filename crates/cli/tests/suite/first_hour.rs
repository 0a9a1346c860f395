//! What people who were new stumbled over: each is a fact here.

use crate::harness;
use crate::place::Place;

use harness::{
    Below, Mounted, Transport, flip, hearth, program, refused, said, shell, succeed, until,
};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

#[test]
fn a_directory_that_is_served_can_be_made_read_only_and_writable_again() {
    let below = Below::tmpfs();
    fs::write(below.at("f"), "before").unwrap();
    let mounted = Mounted::over(Transport::Dev, below.path(), "passthrough=off");
    let open = File::options().append(true).open(mounted.at("f")).unwrap();
    let set = |value: &str| {
        let value = format!("fs/read-only={value}");
        succeed(hearth().arg("tune").arg(mounted.path()).arg(value));
    };
    set("1");
    let is_refused = |what: &str, done: std::io::Result<()>| {
        let error = done.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{what}");
    };
    is_refused("make", fs::write(mounted.at("new"), ""));
    is_refused("write", (&open).write_all(b"more"));
    is_refused("open", fs::write(mounted.at("f"), "after"));
    is_refused("mkdir", fs::create_dir(mounted.at("d")));
    is_refused("unlink", fs::remove_file(mounted.at("f")));
    is_refused("rename", fs::rename(mounted.at("f"), mounted.at("g")));
    is_refused("link", fs::hard_link(mounted.at("f"), mounted.at("g")));
    is_refused("truncate", open.set_len(1));
    let mode = fs::metadata(mounted.at("f")).unwrap().permissions();
    is_refused("chmod", fs::set_permissions(mounted.at("f"), mode));
    assert_eq!(fs::read(below.at("f")).unwrap(), b"before");
    assert_eq!(fs::read(mounted.at("f")).unwrap(), b"before");
    set("0");
    (&open).write_all(b" and after").unwrap();
    assert_eq!(fs::read(below.at("f")).unwrap(), b"before and after");
}

#[test]
fn a_repair_ends_with_the_word_and_a_damaged_last_frame_is_told() {
    let store = Place::with_volume("size=1G");
    store.mount("store:v", "");
    fs::write(store.at("m/kept"), "x").unwrap();
    store.done("sync m");
    fs::write(store.at("m/last"), "y").unwrap();
    store.done("sync m");
    // The witness names an epoch within a second.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    store.kill();
    let (path, at) = last_frame(&store.at("v"));
    flip(&path, at + 150);
    let refusal = store.say("mount store:v m");
    refused(
        "a gap",
        &refusal,
        1,
        &["is missing", "hearth fsck", "-o ro"],
    );
    let found = store.say("fsck v");
    assert_eq!(found.status.code(), Some(4), "{found:?}");
    assert!(
        found.out.ends_with(": damaged; --repair puts it right\n"),
        "{found:?}"
    );
    assert!(!found.out.contains("run hearth fsck"), "{found:?}");
    let repaired = store.say("fsck v --repair");
    assert_eq!(repaired.status.code(), Some(1), "{repaired:?}");
    assert!(repaired.out.ends_with(": repaired\n"), "{repaired:?}");
    assert!(!repaired.out.contains("--repair puts"), "{repaired:?}");
    let clean = store.say("fsck v --repair");
    assert_eq!(clean.status.code(), Some(0), "{clean:?}");
    assert!(clean.out.ends_with(": clean\n"), "{clean:?}");
}

/// The file and the place of the frame with the newest epoch.
fn last_frame(volume: &Path) -> (PathBuf, u64) {
    let mut newest = None;
    for log in fs::read_dir(volume.join("log")).unwrap() {
        let path = log.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let frames = (0..bytes.len()).step_by(4096);
        for at in frames.filter(|&at| bytes[at..].starts_with(b"HEARTHF1")) {
            let epoch = u64::from_le_bytes(bytes[at + 24..at + 32].try_into().unwrap());
            newest = newest.max(Some((epoch, path.clone(), at as u64)));
        }
    }
    let (_, path, at) = newest.unwrap();
    (path, at)
}

#[test]
fn whoever_looks_beside_a_mount_is_told_whose_commit_is_seen() {
    let store = Place::with_volume("size=1G");
    store.mount("store:v", "");
    fs::write(store.at("m/f"), "x").unwrap();
    let checked = store.done("fsck v");
    let last = checked.out.lines().last().unwrap();
    assert!(
        last.contains("last commit") && last.contains("mounted on"),
        "{checked:?}"
    );
    let json: Value = serde_json::from_str(&store.done("fsck --json v").out).unwrap();
    assert!(
        json["in_use_by"].as_str().unwrap().contains("mounted on"),
        "{json}"
    );
    let dumped = store.done("dump v d.tar");
    for words in ["last commit", "mounted on", "hearth sync"] {
        assert!(dumped.err.contains(words), "{words}: {dumped:?}");
    }
    store.unmount();
    let checked = store.done("fsck v");
    assert!(checked.out.ends_with(": clean\n"), "{checked:?}");
    assert!(store.done("dump v e.tar").err.is_empty());
}

#[test]
fn tables_that_do_not_open_are_named_once_and_without_a_circle_of_remedies() {
    let store = Place::with_volume("size=1G");
    store.mount("store:v", "");
    for n in 0..50 {
        fs::write(store.at(&format!("m/f{n}")), "x".repeat(100)).unwrap();
    }
    store.unmount();
    let mut names = Vec::new();
    for keyspace in ["1", "2"] {
        let tables = format!("engine/keyspaces/{keyspace}/tables");
        let table = fs::read_dir(store.at("v").join(&tables)).unwrap().next();
        let table = table.unwrap().unwrap();
        // The table of contents, which an opening reads.
        flip(&table.path(), table.metadata().unwrap().len() - 60);
        names.push(format!("{tables}/{}", table.file_name().to_string_lossy()));
    }
    for typed in [
        "mount store:v m",
        "mount -o ro store:v m",
        "fsck v",
        "fsck v --repair",
        "dump v d",
    ] {
        let status = if typed.starts_with("fsck") { 8 } else { 1 };
        let said = store.say(typed);
        let words = [&*names[0], &*names[1], "copy of the volume", "load a dump"];
        refused(typed, &said, status, &words);
        for word in ["{", "Checksum(", "run hearth fsck"] {
            assert!(!said.err.contains(word), "{typed}: {said:?}");
        }
    }
}

#[test]
fn a_load_that_was_cut_off_is_never_taken_for_a_volume() {
    let store = Place::with_volume("size=1G");
    store.mount("store:v", "");
    for n in 0..20 {
        fs::write(store.at(&format!("m/f{n}")), "x".repeat(50_000)).unwrap();
    }
    store.unmount();
    store.done("dump v d.tar");
    let dump = fs::read(store.at("d.tar")).unwrap();
    fs::write(store.at("cut.tar"), &dump[..dump.len() / 2]).unwrap();
    let cut = store.say("load cut.tar store:w");
    refused(
        "a load",
        &cut,
        1,
        &["ends too early", "a part", "remove it"],
    );
    for typed in ["mount store:w m", "mount -o ro store:w m", "dump w x.tar"] {
        refused(
            typed,
            &store.say(typed),
            1,
            &["a part of a dump", "load again"],
        );
    }
    let again = store.say("load d.tar store:w");
    refused(
        "another load",
        &again,
        1,
        &["a part of a dump", "remove the directory"],
    );
    fs::remove_dir_all(store.at("w")).unwrap();
    store.done("load d.tar store:w");
    store.mount("store:w", "");
    assert_eq!(fs::read(store.at("m/f19")).unwrap().len(), 50_000);
    store.unmount();
    // A volume that has files is refused and goes on to be one.
    let full = store.say("load d.tar store:w");
    refused("a full volume", &full, 1, &["holds files already"]);
    // Nobody is told to remove a file of his own.
    fs::write(store.at("plain"), "mine").unwrap();
    let plain = store.say("load d.tar plain");
    refused("a file", &plain, 1, &["plain: is no directory"]);
    store.mount("store:w", "");
    store.unmount();
}

#[test]
fn the_hottest_are_those_of_the_highest_temperature_and_sort_takes_another_column() {
    let mounted = Mounted::new(Transport::Dev, "heat=exact");
    fs::write(mounted.at("often"), "x").unwrap();
    fs::write(mounted.at("much"), vec![7; 8 << 20]).unwrap();
    let often = File::open(mounted.at("often")).unwrap();
    for _ in 0..40 {
        often.read_at(&mut [0], 0).unwrap();
    }
    let top = |more: &[&str]| {
        let mut top = hearth();
        top.args(["heat", "top"]).arg(mounted.path()).args(more);
        succeed(&mut top)
    };
    let paths = |more: &[&str]| -> Vec<String> {
        let rows: Value = serde_json::from_str(&top(&[more, &["--json"]].concat())).unwrap();
        let rows = rows.as_array().unwrap().iter();
        let name = |row: &Value| {
            row["path"]
                .as_str()
                .unwrap()
                .rsplit('/')
                .next()
                .unwrap()
                .to_owned()
        };
        rows.map(name).collect()
    };
    assert_eq!(paths(&[]), ["much", "often"]);
    assert_eq!(paths(&["--sort", "accesses"]), ["often", "much"]);
    assert_eq!(paths(&["--sort", "bytes"]), ["much", "often"]);
    let shown = top(&[]);
    assert!(
        shown
            .lines()
            .next()
            .unwrap()
            .contains("hottest by temperature"),
        "{shown}"
    );
    let first = |line: &str| line.split_whitespace().next()?.parse().ok();
    let temperatures: Vec<f64> = shown.lines().filter_map(first).collect();
    assert!(
        temperatures.is_sorted_by(|a, b| a >= b) && temperatures.len() == 2,
        "{shown}"
    );
}

#[test]
fn a_mount_is_called_as_what_it_shows() {
    let store = Place::with_volume("size=1G");
    fs::rename(store.at("v"), store.at("with:colon")).unwrap();
    store.mount("store:with:colon", "");
    let find = |at: &Path| succeed(program("findmnt").args(["-n", "-o", "SOURCE"]).arg(at));
    let name = store.at("with_colon").display().to_string();
    assert_eq!(find(&store.at("m")).trim_end(), name);
    let df = succeed(&mut shell(&store.at("m"), "df -l . | tail -n 1"));
    assert!(df.starts_with(&name), "{df}");
    let info = store.done("info m").out;
    let source = format!("store:{}", store.at("with:colon").display());
    assert!(info.contains(&source), "{info}");
    store.unmount();
    let memory = Mounted::new(Transport::Dev, "");
    assert_eq!(find(memory.path()), "memory\n");
    let info = succeed(hearth().arg("info").arg(memory.path()));
    assert!(info.contains("memory:"), "{info}");
    let process = format!("process     {}\n", memory.daemon());
    assert!(info.contains(&process), "{info}");
    let named = Mounted::new(Transport::Dev, "fsname=mine");
    assert_eq!(find(named.path()), "mine\n");
}

#[test]
fn a_verb_without_a_mount_takes_that_of_the_working_directory() {
    let mounted = Mounted::new(Transport::Dev, "quota,hot_track");
    fs::create_dir(mounted.at("deep")).unwrap();
    let inside = |typed: &str| {
        let mut verb = hearth();
        succeed(verb.args(typed.split(' ')).current_dir(mounted.at("deep")))
    };
    assert!(inside("stats").contains("lookup"));
    inside("heat off");
    inside("heat on");
    inside("sync");
    inside("sched");
    let place = mounted.path().display().to_string();
    for typed in ["quota get", "quota report", "quota get user:0"] {
        assert!(inside(typed).contains(&place), "{typed}");
    }
    inside("quota check");
}

#[test]
fn a_verb_that_needs_a_mount_says_which_there_are_and_a_typo_what_was_meant() {
    let mounted = Mounted::new(Transport::Dev, "");
    for (typed, words) in [
        (
            "quota set user:1 --hard 1M",
            &["MOUNT", "mounted are: /"][..],
        ),
        ("locks", &["MOUNT", "mounted are: /"]),
        (
            "muont",
            &["'muont'", "similar subcommands exist: ", "'mount'"],
        ),
        (
            "quota reprot",
            &["'reprot'", "similar subcommand", "'report'"],
        ),
        (
            "stats --jsno",
            &["'--jsno'", "'--json'", "see 'hearth stats --help'"],
        ),
        ("quota st", &["'st'", "see 'hearth quota --help'"]),
        ("frobnicate", &["'frobnicate'", "see 'hearth --help'"]),
    ] {
        refused(typed, &said(hearth().args(typed.split(' '))), 2, words);
    }
    drop(mounted);
}

#[test]
fn refusals_name_what_was_typed_and_what_to_do() {
    let mounted = Mounted::new(Transport::Dev, "allow_other");
    let place = mounted.path().display().to_string();
    let mut other = program("setpriv");
    other.args(["--reuid", "1234", "--regid", "1234", "--clear-groups"]);
    other
        .arg(env!("CARGO_BIN_EXE_hearth"))
        .args(["umount", &place]);
    refused(
        "umount",
        &said(&mut other),
        1,
        &[&place, "was mounted by root; unmount it as root\n"],
    );
    let mut inner = hearth();
    inner
        .args(["run", "--", "true"])
        .current_dir(mounted.path());
    let words = ["is served by Hearth already", "without 'hearth run'"];
    refused("run in a mount", &said(&mut inner), 125, &words);
    let mut root = hearth();
    root.args(["run", "--", "true"]).current_dir("/");
    refused(
        "run in /",
        &said(&mut root),
        125,
        &["/: ", "change to the directory"],
    );
    let full = mounted.outside("full");
    fs::write(full.join("f"), "x").unwrap();
    let alone = said(hearth().arg("mount").arg(&full));
    let words = ["not empty", "empty directory", "MOUNTPOINT' to serve"];
    refused("mount alone", &alone, 1, &words);
}

#[test]
fn a_check_of_quotas_that_are_still_counted_says_when_to_ask_again() {
    let below = Below::tmpfs();
    let mounted = Mounted::over(Transport::Dev, below.path(), "quota=background");
    // Whoever was under way when the count ended is waited for some seconds.
    let check = said(hearth().args(["quota", "check"]).arg(mounted.path()));
    refused("a check", &check, 1, &["still counted", "hearth info"]);
    let info = succeed(hearth().arg("info").arg(mounted.path()));
    assert!(info.contains("quotas"), "{info}");
    until("quotas can be checked", || {
        said(hearth().args(["quota", "check"]).arg(mounted.path())).success()
    });
}
