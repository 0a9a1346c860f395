//! The directory `.hearth` on the mount: what it tells and what it lets be changed.

use crate::harness;

use harness::{Mounted, Transport, hearth, said, shell, succeed};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

harness::on_both_transports!(
    the_directory_is_found_and_not_listed,
    the_version_is_that_of_the_program,
    counts_move_with_what_is_done,
    the_transport_is_told,
    a_tunable_takes_what_makes_sense_and_nothing_else,
    a_volume_made_read_only_refuses_changes_until_it_is_made_writable,
    a_command_shows_what_the_file_has,
    a_question_is_answered_on_the_same_open_file,
);

fn the_directory_is_found_and_not_listed(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    std::fs::write(mounted.at("file"), "x").unwrap();
    let listed = succeed(&mut shell(mounted.path(), "ls -A; find . -mindepth 1"));
    assert_eq!(listed, "file\n./file\n");
    let inside = succeed(&mut shell(&mounted.at(".hearth"), "find . -type f | sort"));
    let expected = [
        "./ask",
        "./events",
        "./file-locks.json",
        "./heat/histogram.json",
        "./heat/import",
        "./heat/map.json",
        "./heat/ranges.json",
        "./heat/status.json",
        "./heat/tenants.json",
        "./heat/top.json",
        "./heat/what-if.json",
        "./locks",
        "./locks.json",
        "./pid",
        "./quota/events",
        "./quota/report.json",
        "./sched",
        "./sched.json",
        "./stats",
        "./sys/fs/atime",
        "./sys/fs/hot-half-lives",
        "./sys/fs/hot-mem-high-thresh",
        "./sys/fs/hot-track",
        "./sys/fs/hot-update-interval",
        "./sys/fs/memory-budget",
        "./sys/fs/read-only",
        "./sys/help",
        "./version",
    ];
    assert_eq!(inside.lines().collect::<Vec<_>>(), expected);
    for refused in [
        "mkdir .hearth",
        "rm -r .hearth",
        "mv .hearth x",
        "touch .hearth/new",
        "rm .hearth/version",
        "echo x > .hearth/version",
        "mv file .hearth",
        "ln .hearth/version file2",
        "chattr -i .hearth",
        "chattr +A .hearth/version",
    ] {
        // Root is allowed everything, and still none of these.
        let said = said(&mut shell(mounted.path(), refused));
        assert!(!said.success(), "{refused}: {said:?}");
    }
    assert!(mounted.at("file").exists());
}

fn the_version_is_that_of_the_program(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let version = std::fs::read_to_string(mounted.at(".hearth/version")).unwrap();
    assert_eq!(version, succeed(hearth().arg("version")));
}

fn counts_move_with_what_is_done(transport: Transport) {
    let mounted = Mounted::new(
        transport,
        "entry_timeout=0,attr_timeout=0,negative_timeout=0",
    );
    let before = Stats::of(&mounted);
    for number in 0..50 {
        std::fs::write(mounted.at(format!("file{number}")), [7; 10_000]).unwrap();
        assert!(std::fs::metadata(mounted.at(format!("missing{number}"))).is_err());
        std::fs::create_dir(mounted.at(format!("dir{number}"))).unwrap();
    }
    succeed(&mut shell(mounted.path(), "sync -f ."));
    let after = Stats::of(&mounted);
    let count = |op: &str| {
        let key = format!("hearth_op_seconds_count{{op=\"{op}\"}}");
        after.number(&key) - before.number(&key)
    };
    let bucket = |op: &str| {
        let key = format!("hearth_op_seconds_bucket{{op=\"{op}\",le=\"+Inf\"}}");
        after.number(&key) - before.number(&key)
    };
    assert!(
        count("mkdir") == 50.0 && bucket("mkdir") == 50.0,
        "{}",
        after.0
    );
    assert!(count("lookup") >= 50.0, "{}", after.0);
    let errors = "hearth_op_errors_total{op=\"lookup\"}";
    assert!(
        after.number(errors) - before.number(errors) >= 50.0,
        "{}",
        after.0
    );
    let gauge = |name: &str| after.number(name) - before.number(name);
    assert_eq!(gauge("hearth_inodes"), 100.0, "{}", after.0);
    assert_eq!(
        gauge("hearth_page_bytes"),
        50.0 * 3.0 * 4096.0,
        "{}",
        after.0
    );
    // What a home, or the control file in its place, refuses to bring counts as well.
    let refused = |stats: &Stats| stats.number("hearth_op_errors_total{op=\"write\"}");
    assert!(std::fs::write(mounted.at(".hearth/ask"), "nonsense").is_err());
    assert_eq!(refused(&Stats::of(&mounted)) - refused(&after), 1.0);
}

fn the_transport_is_told(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let stats = Stats::of(&mounted);
    let info = stats
        .0
        .lines()
        .find(|line| line.starts_with("hearth_info{"));
    let told = format!("transport=\"{}\"", transport.word());
    assert!(info.is_some_and(|line| line.contains(&told)), "{}", stats.0);
}

fn a_tunable_takes_what_makes_sense_and_nothing_else(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let tunables: [(&str, &[&str], &[&str]); 3] = [
        (
            "memory-budget",
            &["1048576", "0"],
            &["-1", "one", "1 2", "4096", "99999999999999999999"],
        ),
        (
            "atime",
            &["noatime", "strictatime", "relatime"],
            &["never", "no atime", "1"],
        ),
        ("read-only", &["0"], &["2", "yes", "-1", "01x"]),
    ];
    for (name, good, bad) in tunables {
        let file = mounted.at(".hearth/sys/fs").join(name);
        for value in good {
            assert_eq!(write(&file, value), Ok(()), "{name} {value}");
            assert_eq!(read(&file), format!("{value}\n"));
        }
        let before = read(&file);
        for value in bad.iter().copied().chain(["\u{fffd}", "\0"]) {
            assert_eq!(write(&file, value), Err(Errno::INVAL), "{name} {value}");
            assert_eq!(read(&file), before);
        }
    }
}

fn a_volume_made_read_only_refuses_changes_until_it_is_made_writable(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    std::fs::write(mounted.at("file"), "x").unwrap();
    let switch = mounted.at(".hearth/sys/fs/read-only");
    assert_eq!(write(&switch, "1"), Ok(()));
    let refused = std::fs::create_dir(mounted.at("dir")).expect_err("a change is refused");
    assert_eq!(refused.raw_os_error(), Some(Errno::ROFS.raw_os_error()));
    assert_eq!(read(&mounted.at("file")), "x");
    assert_eq!(write(&switch, "0"), Ok(()));
    std::fs::create_dir(mounted.at("dir")).unwrap();
}

fn a_command_shows_what_the_file_has(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    for number in 0..10 {
        std::fs::create_dir(mounted.at(format!("dir{number}"))).unwrap();
    }
    let table = succeed(hearth().arg("stats").arg(mounted.path()));
    let row = table.lines().find(|line| line.starts_with("mkdir "));
    let count = row.and_then(|row| row.split_whitespace().nth(1));
    assert_eq!(count, Some("10"), "{table}");
    let json = succeed(hearth().args(["stats", "--json"]).arg(mounted.path()));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        json["hearth_inodes"],
        Stats::of(&mounted).number("hearth_inodes")
    );
    let counts = json["hearth_op_seconds_count"].as_array().expect("a list");
    let mkdir = counts.iter().find(|count| count["labels"]["op"] == "mkdir");
    assert_eq!(mkdir.expect("mkdir")["value"], 10);
}

/// The text of `stats`, which is checked to be Prometheus text.
struct Stats(String);

impl Stats {
    fn of(mounted: &Mounted) -> Stats {
        let text = std::fs::read_to_string(mounted.at(".hearth/stats")).unwrap();
        let mut declared = Vec::new();
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                declared.push(kind.split(' ').next().unwrap().to_owned());
            } else if !line.starts_with("# HELP ") {
                let (key, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert!(value.parse::<f64>().is_ok(), "{line}");
                let name = key.split('{').next().unwrap();
                let is_of = |kind: &String| name.starts_with(kind.as_str());
                assert!(declared.last().is_some_and(is_of), "no TYPE before {line}");
            }
        }
        assert!(declared.len() > 10, "{text}");
        Stats(text)
    }

    /// 0 for an operation that has not happened.
    fn number(&self, key: &str) -> f64 {
        let value = self
            .0
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().expect("a number"))
    }
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

/// Writes like `echo`: the error may come from the write or from the close.
fn write(file: &Path, value: &str) -> Result<(), Errno> {
    let file: PathBuf = file.to_owned();
    let value = if value == "\u{fffd}" {
        b"\xff\xfe".to_vec()
    } else {
        value.into()
    };
    let done = File::options()
        .write(true)
        .truncate(true)
        .open(file)
        .and_then(|mut file| {
            file.write_all(&value)?;
            file.write_all(b"")?;
            rustix::io::dup(&file).map(drop).map_err(Into::into)
        });
    done.map_err(|error| Errno::from_io_error(&error).expect("an error of the system"))
}

fn a_question_is_answered_on_the_same_open_file(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let asked = |question: &str| {
        let ask = "exec 3<>.hearth/ask; echo \"$1\" >&3; echo $?; cat <&3";
        let mut command = std::process::Command::new("bash");
        command.current_dir(mounted.path());
        succeed(command.args(["-c", ask, "bash", question]))
    };
    let text = asked("help");
    assert!(text.starts_with("0\n") && text.contains("help "), "{text}");
    let text = asked("no such thing");
    assert!(
        text.starts_with("1\n'no such thing' is no question"),
        "{text}"
    );
}
