//! When a read moves the access time, in each of the three modes.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hands;

use hands::Hands;
use hearth::{
    AtimeMode, Caller, Credentials, Observer, Origin, Process, ROOT, SetTime, Time, Volume,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

const DAY: i64 = 24 * 60 * 60;

/// A file that was read and changed long ago, on a volume of this mode.
fn old_file(mode: AtimeMode) -> (Process, i32, Arc<AtomicI64>) {
    let clock = Arc::new(AtomicI64::new(100 * DAY));
    let volume = Volume::builder().clock(Hands(Arc::clone(&clock)));
    let process = volume.build().unwrap().process(Credentials::root());
    process.volume().set_atime(mode);
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
fn read_on(mode: AtimeMode, days: &[i64]) -> Vec<i64> {
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
    assert_eq!(
        read_on(AtimeMode::Relatime, &[101, 101, 102]),
        [101, 101, 102]
    );
    let (process, fd, clock) = old_file(AtimeMode::Relatime);
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
    let (process, fd, clock) = old_file(AtimeMode::Strict);
    for second in 1..4 {
        clock.store(101 * DAY + second, Relaxed);
        process.pread(fd, &mut [0; 4], 0).unwrap();
        assert_eq!(process.fstat(fd).unwrap().atime.sec, 101 * DAY + second);
    }
    assert_eq!(read_on(AtimeMode::No, &[101, 150, 200]), [1, 1, 1]);
}

/// What observers were told.
#[derive(Default)]
struct Told(AtomicI64);

impl Observer for Told {
    fn entry_changed(&self, _parent: u64, _name: &[u8]) {}
    fn inode_changed(&self, _ino: u64, _data: Option<Range<u64>>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Once, a kernel that read a file was told of it on its own behalf, before the answer, and dropped
/// what it had read.
#[test]
fn a_kernel_knows_of_the_access_time_of_what_it_reads_and_is_told_of_that_of_others() {
    let (process, fd, clock) = old_file(AtimeMode::Relatime);
    let volume = process.volume();
    let told = Arc::new(Told::default());
    volume.observe(told.clone());
    let ino = process.fstat(fd).unwrap().ino;
    process.symlink("f", "/l").unwrap();
    let link = process.lstat("/l").unwrap().ino;
    let vfs = volume.vfs();
    let caller = Caller {
        origin: Origin::Kernel,
        ..Caller::ROOT
    };
    let file = vfs.open(&caller, ino, libc::O_RDONLY).unwrap();
    let top = vfs.open(&caller, ROOT, libc::O_DIRECTORY).unwrap();
    let before = told.0.load(Relaxed);
    clock.store(200 * DAY, Relaxed);
    vfs.read(&file, 0, &mut [0; 4]).unwrap();
    vfs.read_node(ino, 0, &mut [0; 4]).unwrap();
    vfs.readlink(link).unwrap();
    vfs.readdir(&top, 0, &mut |_| true).unwrap();
    assert_eq!(process.fstat(fd).unwrap().atime.sec, 200 * DAY);
    assert_eq!(told.0.load(Relaxed), before);
    clock.store(300 * DAY, Relaxed);
    process.pread(fd, &mut [0; 4], 0).unwrap();
    assert_eq!(told.0.load(Relaxed), before + 1);
}
