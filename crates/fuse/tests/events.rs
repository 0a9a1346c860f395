//! The stream of names tells what the library does beside a mount, for which inotify has no event.

#![allow(clippy::unwrap_used)]

mod harness;

use std::fs::File;
use std::io::Read;

fn news(stream: &mut File) -> Vec<String> {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn check(transport: &str) {
    let mut mounted = harness::Mounted::start(transport);
    std::fs::write(mounted.path().join("kept"), "").unwrap();
    let mut stream = File::open(mounted.path().join(".hearth/events")).unwrap();
    mounted.command("create /made");
    mounted.command("unlink /kept");
    std::fs::rename(mounted.path().join("made"), mounted.path().join("moved")).unwrap();
    let told = news(&mut stream);
    let parts = [
        [
            "\"event\":\"create\"",
            "\"path\":\"/made\"",
            "\"origin\":\"library\"",
        ],
        [
            "\"event\":\"remove\"",
            "\"path\":\"/kept\"",
            "\"origin\":\"library\"",
        ],
        [
            "\"event\":\"rename\"",
            "\"new_path\":\"/moved\"",
            "\"origin\":\"mount\"",
        ],
    ];
    assert_eq!(told.len(), parts.len(), "{told:?}");
    for (line, parts) in told.iter().zip(parts) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
}

#[test]
fn what_the_library_does_beside_a_mount_is_told_over_dev() {
    check("transport=dev");
}

#[test]
fn what_the_library_does_beside_a_mount_is_told_over_uring() {
    check("transport=uring");
}
