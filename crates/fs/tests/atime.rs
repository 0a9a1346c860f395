//! When a read moves the access time, in each of the three modes.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hands;

use hands::Hands;
use hearth::{Credentials, Process, SetTime, Time, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

const DAY: i64 = 24 * 60 * 60;

/// A file that was read and changed long ago, on a volume of this mode.
fn old_file(mode: &str) -> (Process, i32, Arc<AtomicI64>) {
    let clock = Arc::new(AtomicI64::new(100 * DAY));
    let volume = Volume::builder().clock(Hands(Arc::clone(&clock)));
    let process = volume.build().unwrap().process(Credentials::root());
    let fd = process
        .open("/.hearth/sys/fs/atime", libc::O_WRONLY, 0)
        .unwrap();
    process.write(fd, mode.as_bytes()).unwrap();
    process.close(fd).unwrap();
    let fd = process
        .open("/f", libc::O_CREAT | libc::O_RDWR, 0o644)
        .unwrap();
    process.write(fd, b"text").unwrap();
    let old = |day: i64| {
        SetTime::At(Time {
            sec: day * DAY,
            nsec: 0,
        })
    };
    process.futimens(fd, Some(old(1)), Some(old(2))).unwrap();
    (process, fd, clock)
}

/// The day of the access time after a read on each of these days.
fn read_on(mode: &str, days: &[i64]) -> Vec<i64> {
    let (process, fd, clock) = old_file(mode);
    let read = |&day: &i64| {
        clock.store(day * DAY, Relaxed);
        assert_eq!(process.pread(fd, &mut [0; 4], 0), Ok(4));
        process.fstat(fd).unwrap().atime.sec / DAY
    };
    days.iter().map(read).collect()
}

#[test]
fn relatime_moves_what_is_older_than_the_last_change_or_than_a_day() {
    // The change of times on day 100 was the last change.
    assert_eq!(read_on("relatime", &[101, 101, 102]), [101, 101, 102]);
    let (process, fd, clock) = old_file("relatime");
    let atime = || process.fstat(fd).unwrap().atime.sec;
    clock.store(101 * DAY, Relaxed);
    process.pread(fd, &mut [0; 4], 0).unwrap();
    clock.store(101 * DAY + 60, Relaxed);
    process.pread(fd, &mut [0; 4], 0).unwrap();
    assert_eq!(atime(), 101 * DAY, "it was read a minute ago");
    process.pwrite(fd, b"new", 0).unwrap();
    clock.store(101 * DAY + 120, Relaxed);
    process.pread(fd, &mut [0; 4], 0).unwrap();
    assert_eq!(atime(), 101 * DAY + 120, "it was changed since");
}

#[test]
fn strictatime_moves_it_each_time_and_noatime_never() {
    let (process, fd, clock) = old_file("strictatime");
    for second in 1..4 {
        clock.store(101 * DAY + second, Relaxed);
        process.pread(fd, &mut [0; 4], 0).unwrap();
        assert_eq!(process.fstat(fd).unwrap().atime.sec, 101 * DAY + second);
    }
    assert_eq!(read_on("noatime", &[101, 150, 200]), [1, 1, 1]);
}
