//! The settings below `.hearth`: what is refused says what is taken, and changes nothing.

use crate::fixture::{read, root};
use hearth::{Errno, Process};
use std::collections::BTreeSet;

/// Name below `.hearth/sys`, values that are taken, values that are not.
const TUNABLES: &[(&str, &[&str], &[&str])] = &[
    (
        "fs/memory-budget",
        &["65536", "18446744073709551615", "0"],
        &["65535", "1", "-1", "lots", "1 2", "18446744073709551616"],
    ),
    ("fs/hot-track", &["1", "0"], &["2", "on", "-1", "01"]),
    (
        "fs/hot-update-interval",
        &["1", "86400", "150"],
        &["0", "86401", "-1", "soon"],
    ),
    (
        "fs/hot-half-lives",
        &["1 2", "31535999 31536000", "3600 86400"],
        &["3600", "0 9", "9 9", "9 8", "1 31536001", "1 2 3"],
    ),
    (
        "fs/hot-mem-high-thresh",
        &["1", "1048576", "0"],
        &["1048577", "-1", "lots"],
    ),
    (
        "fs/atime",
        &["noatime", "strictatime", "relatime"],
        &["sometimes", "no atime", "1", "Relatime"],
    ),
    ("fs/read-only", &["1", "0"], &["2", "yes", "-1"]),
];

fn read_on(process: &Process, fd: i32) -> String {
    let mut text = vec![0; 1 << 20];
    let len = process.read(fd, &mut text).unwrap();
    text.truncate(len);
    String::from_utf8(text).unwrap()
}

/// Writes to a control file, and reads on.
fn put(process: &Process, path: &str, value: &[u8]) -> (Result<usize, Errno>, String) {
    let fd = process.open(path, libc::O_RDWR, 0).unwrap();
    let done = process.write(fd, value);
    let said = read_on(process, fd);
    process.close(fd).unwrap();
    (done, said)
}

/// What each tunable takes, by its name.
fn help(process: &Process) -> Vec<(String, String)> {
    let text = read(process, "/.hearth/sys/help");
    let lines = text.lines().map(|line| line.split_once('\t').unwrap());
    lines
        .map(|(name, takes)| (name.to_owned(), takes.to_owned()))
        .collect()
}

#[test]
fn every_tunable_takes_its_documented_values_and_refuses_others_with_a_reason() {
    let process = root();
    let help = help(&process);
    for (name, good, bad) in TUNABLES {
        let path = format!("/.hearth/sys/{name}");
        let (_, takes) = help.iter().find(|(listed, _)| listed == name).unwrap();
        for value in *good {
            assert_eq!(put(&process, &path, value.as_bytes()).0, Ok(value.len()));
            assert_eq!(read(&process, &path), format!("{value}\n"), "{name}");
        }
        let before = read(&process, &path);
        for value in bad.iter().copied().chain(["", "\0"]) {
            let (done, said) = put(&process, &path, format!("{value}\n").as_bytes());
            let shown = value.escape_debug();
            assert_eq!(done, Err(Errno::EINVAL), "{name} {value}");
            assert_eq!(said, format!("{name} '{shown}': expected {takes}\n"));
            assert_eq!(read(&process, &path), before, "{name} {value}");
        }
    }
    let tested: Vec<&str> = TUNABLES.iter().map(|(name, ..)| *name).collect();
    let listed: Vec<&str> = help.iter().map(|(name, _)| &**name).collect();
    assert_eq!(listed, tested);
}

/// Paths of the files below `/.hearth/sys` that have a bit for writing.
fn settable(process: &Process, below: &str, found: &mut BTreeSet<String>) {
    let directory = format!("/.hearth/sys{below}");
    for entry in process.read_dir(&directory).unwrap() {
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        let path = format!("{below}/{name}");
        let stat = process.stat(format!("/.hearth/sys{path}")).unwrap();
        if stat.kind == hearth::Kind::Directory {
            settable(process, &path, found);
        } else if stat.perm & 0o222 != 0 {
            found.insert(path[1..].to_owned());
        }
    }
}

#[test]
fn help_lists_the_files_that_can_be_set_and_no_others() {
    let process = root();
    let mut found = BTreeSet::new();
    settable(&process, "", &mut found);
    let listed: BTreeSet<String> = help(&process).into_iter().map(|(name, _)| name).collect();
    assert_eq!(listed, found);
    let said = process.open("/.hearth/sys/help", libc::O_WRONLY, 0);
    let done = said.and_then(|fd| process.write(fd, b"x"));
    assert_eq!(done, Err(Errno::EACCES));
}

#[test]
fn a_refusal_is_one_line_whatever_was_written() {
    let process = root();
    let path = "/.hearth/sys/fs/read-only";
    for (value, shown) in [
        (&b"1\n2"[..], r"1\n2".to_owned()),
        (b"\xff", "\u{fffd}".to_owned()),
        (&[b'7'; 5000], "7".repeat(64) + "..."),
    ] {
        let (done, said) = put(&process, path, value);
        assert_eq!(done, Err(Errno::EINVAL));
        assert_eq!(said, format!("fs/read-only '{shown}': expected 0 or 1\n"));
    }
}

#[test]
fn a_value_set_after_a_refusal_is_shown_instead_of_the_reason() {
    let process = root();
    let path = "/.hearth/sys/fs/atime";
    let fd = process.open(path, libc::O_RDWR, 0).unwrap();
    assert_eq!(process.pwrite(fd, b"never", 3), Err(Errno::EINVAL));
    let mut said = [0; 5];
    assert_eq!(process.pread(fd, &mut said, 3), Ok(5));
    assert_eq!(&said, b"fs/at");
    assert_eq!(process.pwrite(fd, b"noatime", 3), Ok(7));
    assert_eq!(read_on(&process, fd), "noatime\n");
}

#[test]
fn the_switch_of_the_lock_profile_says_what_it_takes() {
    let process = root();
    let (done, said) = put(&process, "/.hearth/locks", b"sideways\n");
    assert_eq!(done, Err(Errno::EINVAL));
    assert_eq!(said, "locks 'sideways': expected on, exact, off or reset\n");
}
