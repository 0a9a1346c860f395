//! Times of files on a real mount, on both transports: those that the kernel keeps itself and those
//! of the volume.

#![allow(clippy::unwrap_used)]

mod harness;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

fn check(result: libc::c_int) {
    assert!(result >= 0, "{}", io::Error::last_os_error());
}

/// Has the kernel write all pages back, and wait for them only after it has begun with all.
fn sync_all(mount: &Path) {
    let root = File::open(mount).unwrap();
    // SAFETY: a descriptor.
    check(unsafe { libc::syncfs(root.as_raw_fd()) });
}

/// The mtime of the file `f` as the volume has it is the one that the kernel tells.
fn agree(mounted: &mut harness::Mounted, file: &File, n: u32) {
    let told = file.metadata().unwrap();
    let told = format!("{}.{:09}", told.mtime(), told.mtime_nsec());
    assert_eq!(mounted.command("mtime /f"), told, "round {n}");
}

/// Has the kernel give a file a time between two ticks of its coarse clock, behind which no file of
/// any filesystem is stamped from then on (Linux 6.13).
fn advance_stamps(other: &mut File) {
    for _ in 0..2 {
        other.write_all(b"x").unwrap();
        other.metadata().unwrap();
    }
}

on_both_transports! {
    // Once, pages that came after the kernel had said when they were written moved the time.
    fn a_write_that_was_collected_has_the_time_at_which_it_was_made(mounted, "writeback") {
        for n in 0..300 {
            let mut file = File::create(mounted.path().join("f")).unwrap();
            write!(file, "{n}").unwrap();
            // Until the clock has gone on.
            thread::sleep(Duration::from_millis(5));
            sync_all(mounted.path());
            agree(&mut mounted, &file, n);
        }
    }

    // Once, the volume went back behind the time of the write, to the last tick, and the kernel,
    // for which the time had not changed, did not say so.
    fn a_cut_in_the_tick_of_a_write_does_not_go_back_behind_it(mounted, "writeback") {
        let elsewhere = harness::fresh_directory();
        let mut other = File::create(elsewhere.join("other")).unwrap();
        for n in 0..300 {
            let mut file = File::create(mounted.path().join("f")).unwrap();
            advance_stamps(&mut other);
            write!(file, "{n}").unwrap();
            sync_all(mounted.path());
            let file = File::create(mounted.path().join("f")).unwrap();
            sync_all(mounted.path());
            agree(&mut mounted, &file, n);
        }
        std::fs::remove_dir_all(elsewhere).unwrap();
    }
}
