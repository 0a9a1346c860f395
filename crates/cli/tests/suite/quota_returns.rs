//! Room that was given up is there for the next call. The kernel tells a daemon of closed files and
//! of inodes that it forgets by messages of their own, so a limit may still be full when the call
//! that made room has long returned.

use crate::harness;

use harness::{Mounted, Transport, hearth, succeed};
use std::fs::{File, OpenOptions, create_dir, remove_file};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

harness::on_both_transports!(
    who_removes_a_file_at_the_limit_can_make_another,
    a_write_is_cut_short_only_where_the_room_is_not_there,
    what_is_refused_is_counted_once,
);

/// How often room is given up and taken again.
const TIMES: usize = 2_000;
const PAGE: usize = 4_096;
/// One at a time: a daemon waits for its readers only so long.
static ALONE: Mutex<()> = Mutex::new(());

/// A project with room for one file of one page, besides its directory.
fn narrow(mounted: &Mounted) -> PathBuf {
    with_limits(mounted, 1, "2")
}

/// A project with room for so many pages, and so many inodes with its directory.
fn with_limits(mounted: &Mounted, pages: usize, inodes: &str) -> PathBuf {
    let directory = mounted.at("p");
    create_dir(&directory).unwrap();
    let quota = |words: &[&str], path: &Path, more: &[&str]| {
        succeed(hearth().arg("quota").args(words).arg(path).args(more));
    };
    quota(&["project"], &directory, &["7"]);
    let hard = (pages * PAGE).to_string();
    let limits = ["set", "project:7", "--hard", &hard, "--inodes-hard", inodes];
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
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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

fn a_write_is_cut_short_only_where_the_room_is_not_there(transport: Transport) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Half of the room is there all the time, the other half comes back with what is removed.
    let mounted = Mounted::new(transport, "quota");
    let directory = with_limits(&mounted, 6, "none");
    for number in 0..TIMES {
        let path = directory.join(number.to_string());
        let mut options = OpenOptions::new();
        // The volume itself finds the end for who appends.
        let options = options.write(true).append(number % 4 < 2).create_new(true);
        // A write that is to be on the disk is done by a worker.
        let synchronous = if number % 8 < 4 { 0 } else { libc::O_SYNC };
        let mut file = options.custom_flags(synchronous).open(&path).unwrap();
        let pages = if number % 2 == 0 { 3 } else { 6 };
        let written = file.write(&vec![7; pages * PAGE]).unwrap();
        assert_eq!(written, pages * PAGE, "file {number}");
        assert_eq!(file.metadata().unwrap().len(), written as u64);
        if pages == 6 {
            let refused = file.write(&[7; PAGE]).unwrap_err().kind();
            assert_eq!(refused, ErrorKind::StorageFull);
        }
        remove_file(path).unwrap();
    }
    let mut file = create(&directory.join("last")).unwrap();
    let written = file.write(&[7; 7 * PAGE + 1]).unwrap();
    assert_eq!(written, 6 * PAGE, "as far as it fits");
}

fn what_is_refused_is_counted_once(transport: Transport) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
