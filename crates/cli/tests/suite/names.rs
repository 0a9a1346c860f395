//! Names are bytes: anything but NUL and a slash, up to 255 of them.

use crate::harness;

use harness::{Mounted, Private, Transport, hearth, said, succeed};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::Path;

harness::on_both_transports!(
    every_byte_is_allowed_in_a_name,
    names_of_255_bytes_work_and_of_256_do_not,
    a_target_of_4095_bytes_is_kept_as_it_is,
);

fn every_byte_is_allowed_in_a_name(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let mut names: BTreeSet<OsString> = (1..=255)
        .filter(|byte| ![b'/', b'.'].contains(byte))
        .flat_map(|byte| [vec![byte], vec![b'a', byte, b'b']])
        .map(OsString::from_vec)
        .collect();
    let odd: [&[u8]; 6] = [b"two\nlines", b"\n", b"\xff\xfe", b"\xc3", b"...", b"-rf *"];
    names.extend(odd.map(|name| OsStr::from_bytes(name).to_owned()));
    for name in &names {
        fs::write(mounted.at(name), name.as_bytes()).unwrap();
    }
    let entries = fs::read_dir(mounted.path()).unwrap();
    let listed: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(listed.len(), names.len());
    assert_eq!(BTreeSet::from_iter(listed), names);
    for name in &names {
        assert_eq!(fs::read(mounted.at(name)).unwrap(), name.as_bytes());
        let mut renamed = name.clone();
        renamed.push("\n\u{fe}");
        fs::rename(mounted.at(name), mounted.at(&renamed)).unwrap();
        fs::remove_file(mounted.at(&renamed)).unwrap();
    }
    assert_eq!(fs::read_dir(mounted.path()).unwrap().count(), 0);
    assert!(!mounted.log().contains("panicked"), "{}", mounted.log());
}

fn names_of_255_bytes_work_and_of_256_do_not(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let [longest, too_long] = [255, 256].map(|length| OsString::from_vec(vec![0xff; length]));
    let (good, bad) = (mounted.at(&longest), mounted.at(&too_long));
    fs::write(&good, "x").unwrap();
    let same = mounted.at("same");
    fs::write(&same, "y").unwrap();
    let refused = [
        fs::write(&bad, "x"),
        fs::create_dir(&bad),
        symlink("x", &bad),
        fs::hard_link(&same, &bad),
        fs::rename(&same, &bad),
        fs::rename(&bad, &same),
        fs::remove_file(&bad),
        fs::remove_dir(&bad),
        fs::metadata(&bad).map(drop),
        fs::metadata(bad.join("below")).map(drop),
        fs::read_link(&bad).map(drop),
    ];
    for (number, result) in refused.into_iter().enumerate() {
        let code = result.err().and_then(|error| error.raw_os_error());
        assert_eq!(code, Some(Errno::NAMETOOLONG.raw_os_error()), "{number}");
    }
    let entries = fs::read_dir(mounted.path()).unwrap();
    let listed: BTreeSet<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(listed, BTreeSet::from([longest, "same".into()]));
    fs::rename(&good, mounted.at("short")).unwrap();
    fs::rename(mounted.at("short"), &good).unwrap();
    assert_eq!(fs::read_to_string(&good).unwrap(), "x");
}

fn a_target_of_4095_bytes_is_kept_as_it_is(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let target = OsString::from_vec((0..4095).map(|at| (at % 255) as u8 + 1).collect());
    symlink(&target, mounted.at("link")).unwrap();
    assert_eq!(
        fs::read_link(mounted.at("link")).unwrap(),
        target.as_os_str()
    );
    let mut longer = target;
    longer.push("x");
    let refused = symlink(longer, mounted.at("longer")).expect_err("a path is at most 4095 bytes");
    assert_eq!(
        refused.raw_os_error(),
        Some(Errno::NAMETOOLONG.raw_os_error())
    );
}

/// Whatever the place of a mount or of a volume is called, what is said of it is one line, and no
/// sequence of its acts on the terminal.
#[test]
fn what_is_said_of_a_place_is_one_line_whatever_it_is_called() {
    let private = Private::new();
    let called = |name| {
        private
            .path()
            .join(format!("{name} two\nlines \u{1b}[31m\u{9b}2J"))
    };
    let [odd, none, store, dump] = ["mnt", "none", "volume", "dump"].map(called);
    fs::create_dir(&odd).unwrap();
    let typed: [(&[&str], &[&Path]); 10] = [
        (&["stats"], &[&odd]),
        (&["stats"], &[&none]),
        (&["mount", "memory:"], &[&none]),
        (&["mkfs"], &[&store]),
        (&["fsck"], &[&store]),
        (&["dump"], &[&store, &dump]),
        (&["umount"], &[&none]),
        (&["mount", "-o", "hot_track", "memory:"], &[&odd]),
        (&["mount", "-o", "remount,noatime"], &[&odd]),
        (&["heat", "top"], &[&odd]),
    ];
    let mut wrong = Vec::new();
    for (words, places) in typed {
        let said = said(hearth().args(words).args(places));
        let text = said.out + &said.err;
        let line = match words[0] {
            // A table follows.
            "heat" => text.lines().next().unwrap(),
            _ => text.strip_suffix('\n').unwrap(),
        };
        if !line.contains("two?lines ?[31m?2J") || line.contains(char::is_control) {
            wrong.push(format!("{words:?}: {line:?}"));
        }
    }
    succeed(hearth().arg("umount").arg(&odd));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
