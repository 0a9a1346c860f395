//! Room that was given up is there for the next call. The kernel tells a daemon of closed files and
//! of inodes that it forgets by messages of their own, so a limit may still be full when the call
//! that made room has long returned.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Mounted, Transport, hearth, succeed};
use std::fs::{File, OpenOptions, create_dir, remove_file};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

harness::on_both_transports!(
    who_removes_a_file_at_the_limit_can_make_another,
    what_is_refused_is_counted_once,
);

/// How often room is given up and taken again.
const TIMES: usize = 2_000;
const PAGE: usize = 4_096;

/// A project with room for one file of one page, besides its directory.
fn narrow(mounted: &Mounted) -> PathBuf {
    let directory = mounted.at("p");
    create_dir(&directory).unwrap();
    let quota = |words: &[&str], path: &Path, more: &[&str]| {
        succeed(hearth().arg("quota").args(words).arg(path).args(more));
    };
    quota(&["project"], &directory, &["7"]);
    let limits = ["set", "project:7", "--hard", "4096", "--inodes-hard", "2"];
    quota(&limits, mounted.path(), &[]);
    directory
}

/// Gives a file up.
type End = fn(&Path, File);

fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).open(path)
}

fn who_removes_a_file_at_the_limit_can_make_another(transport: Transport) {
    let mounted = Mounted::new(transport, "quota");
    let directory = narrow(&mounted);
    let orders: [(&str, End); 2] = [
        ("closed, then removed", |path, file| {
            drop(file);
            remove_file(path).unwrap();
        }),
        ("removed, then closed", |path, file| {
            remove_file(path).unwrap();
            drop(file);
        }),
    ];
    for (order, end) in orders {
        for number in 0..TIMES {
            let path = directory.join(number.to_string());
            let file = create(&path).and_then(|mut file| {
                file.write_all(&[7; PAGE])?;
                Ok(file)
            });
            let file = file.unwrap_or_else(|error| panic!("{order}, file {number}: {error}"));
            end(&path, file);
        }
    }
}

fn what_is_refused_is_counted_once(transport: Transport) {
    let mounted = Mounted::new(transport, "quota");
    let directory = narrow(&mounted);
    let _kept = create(&directory.join("kept")).unwrap();
    let refused = (0..TIMES).map(|number| create(&directory.join(number.to_string())));
    let mut errors = refused.map(|refused| refused.unwrap_err().kind());
    assert!(errors.all(|kind| kind == ErrorKind::StorageFull));
    let stats = std::fs::read_to_string(mounted.at(".hearth/stats")).unwrap();
    let counted = stats
        .lines()
        .find(|line| line.starts_with("hearth_op_errors_total{op=\"create\"}"))
        .unwrap_or_else(|| panic!("{stats}"));
    // Each once, however often it was tried.
    assert!(counted.ends_with(&format!(" {TIMES}")), "{counted}");
}
