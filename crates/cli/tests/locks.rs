//! `hearth locks` on a mount that is busy.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Mounted, Transport, hearth, said, succeed};
use hearth_testing::threads::SetOnDrop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

harness::on_both_transports!(
    a_busy_class_is_shown_with_its_call_sites,
    a_profile_that_is_off_or_on_already_is_told_with_the_remedy,
    the_switch_is_a_file,
);

/// What a command that must fail says.
fn refused(arguments: &[&str], mounted: &Mounted) -> String {
    let said = said(hearth().arg("locks").arg(mounted.path()).args(arguments));
    assert!(!said.success() && said.out.is_empty(), "{said:?}");
    said.err
}

fn a_busy_class_is_shown_with_its_call_sites(transport: Transport) {
    let mounted = Mounted::new(transport, "entry_timeout=0,attr_timeout=0");
    let (done, dir) = (AtomicBool::new(false), mounted.at("dir"));
    std::fs::create_dir(&dir).unwrap();
    let locks =
        |arguments: &[&str]| succeed(hearth().arg("locks").arg(mounted.path()).args(arguments));
    let shown = std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        scope.spawn(|| {
            while !done.load(Relaxed) {
                std::fs::write(dir.join("file"), "x").unwrap();
                std::fs::remove_file(dir.join("file")).unwrap();
            }
        });
        locks(&["--for", "400ms", "--exact", "--sort", "total"])
    });
    let words = |end: &str| -> Vec<String> {
        let line = shown.lines().find(|line| line.trim_end().ends_with(end));
        let line = line.unwrap_or_else(|| panic!("no {end}:\n{shown}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert!(
        shown.lines().nth(1).unwrap().contains("UTIL     CON"),
        "{shown}"
    );
    assert!(words("*TOTAL*")[4].parse::<u64>().unwrap() > 10, "{shown}");
    let bucket = words(" directory.bucket");
    assert!(bucket[4].parse::<u64>().unwrap() > 1, "{shown}");
    assert!(bucket[0].ends_with('%') && bucket[0] != "0.00%", "{shown}");
    assert!(shown.contains("  crates/fs/src/ops/create.rs:"), "{shown}");
    // It is off again; what was recorded is still there, in the other forms as well.
    let json: serde_json::Value = serde_json::from_str(&locks(&["--json"])).unwrap();
    assert_eq!(json["running"], false);
    let rows = json["locks"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["class"] == "directory.bucket" && row["side"] == "write");
    assert_eq!(row.unwrap()["total"].to_string(), bucket[4]);
    let file = std::fs::read_to_string(mounted.at(".hearth/locks")).unwrap();
    assert!(file.contains(" directory.bucket\n"), "{file}");
}

fn a_profile_that_is_off_or_on_already_is_told_with_the_remedy(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let off = refused(&[], &mounted);
    assert!(
        off.contains("off and empty") && off.contains("--for 10s"),
        "{off}"
    );
    std::fs::write(mounted.at(".hearth/locks"), "on\n").unwrap();
    let on = refused(&["--for", "10s"], &mounted);
    assert!(
        on.contains("on already") && on.contains("echo off >"),
        "{on}"
    );
    assert_eq!(on.lines().count(), 1, "{on}");
}

fn the_switch_is_a_file(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let file = mounted.at(".hearth/locks");
    let state = || {
        let text = std::fs::read_to_string(&file).unwrap();
        text.lines()
            .next()
            .unwrap()
            .split(", ")
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert!(state().starts_with("off"));
    for (word, expected) in [
        ("on", "on"),
        ("exact", "on"),
        ("reset", "on"),
        ("off", "off"),
    ] {
        std::fs::write(&file, word).unwrap();
        assert!(state().starts_with(expected), "{word}: {}", state());
    }
    let refused = std::fs::write(&file, "sideways").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(22));
}
