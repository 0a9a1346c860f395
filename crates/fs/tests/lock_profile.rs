//! The lock profile of a volume in use: every lock has a class there.
//!
//! The profile is of the process, so the tests take turns.

#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used)]

use hearth::fdtable::FdPolicy;
use hearth::{
    Columns, Credentials, LockKind, LockProfile, LockSampling, LockSide, LockSpec, Process, Volume,
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static TURNS: Mutex<()> = Mutex::new(());

struct Turn {
    volume: Volume,
    process: Process,
    _turn: MutexGuard<'static, ()>,
}

impl Turn {
    fn new() -> Turn {
        let turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        let volume = Volume::memory();
        volume.stop_lock_profile();
        volume.reset_lock_profile();
        Turn {
            process: volume.process(Credentials::root()),
            volume,
            _turn: turn,
        }
    }

    fn make(&self, path: &str) -> i32 {
        let flags = libc::O_CREAT | libc::O_RDWR;
        self.process.open(path, flags, 0o644).unwrap()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.volume.stop_lock_profile();
        self.volume.reset_lock_profile();
    }
}

fn has(profile: &LockProfile, class: &str, side: LockSide) -> bool {
    let rows = &profile.locks;
    rows.iter()
        .any(|row| row.class == class && row.side == side)
}

#[test]
fn a_line_names_the_operation_that_took_the_lock() {
    let turn = Turn::new();
    assert!(turn.volume.start_lock_profile(LockSampling::All));
    for number in 0..10 {
        turn.process
            .close(turn.make(&format!("/file-{number}")))
            .unwrap();
    }
    turn.volume.stop_lock_profile();
    let profile = turn.volume.lock_profile();
    let bucket = profile
        .locks
        .iter()
        .find(|row| row.class == "directory.bucket")
        .unwrap();
    let create = bucket
        .sites
        .iter()
        .find(|site| site.site.starts_with("crates/fs/src/ops/create.rs:"));
    assert_eq!(create.expect("a call site").counts.free, 10, "{bucket:?}");
    let columns = Columns::of(&bucket.counts(), bucket.side, profile.elapsed_ns);
    assert!(
        columns.util.unwrap() > 0.0 && columns.con == Some(0.0),
        "{columns:?}"
    );
}

#[test]
fn every_lock_of_a_volume_has_a_class() {
    let turn = Turn::new();
    assert!(turn.volume.start_lock_profile(LockSampling::All));
    let process = &turn.process;
    process.mkdir("/a", 0o755).unwrap();
    process.mkdir("/b", 0o755).unwrap();
    for number in 0..200 {
        process.close(turn.make(&format!("/a/{number}"))).unwrap();
    }
    process.mkdir("/a/dir", 0o755).unwrap();
    process.rename("/a/dir", "/b/dir").unwrap();
    process.rmdir("/b/dir").unwrap();
    process.unlink("/a/0").unwrap();
    let fd = turn.make("/file");
    process.write(fd, &[1; 9000]).unwrap();
    process.pwrite(fd, &[2; 10], 0).unwrap();
    process.ftruncate(fd, 100).unwrap();
    process.chmod("/file", 0o600).unwrap();
    process.setxattr("/file", b"user.x", b"1", 0).unwrap();
    let copy = process.dup(fd).unwrap();
    process.close(copy).unwrap();
    let mut per_core = turn.volume.process(Credentials::root());
    per_core.set_fd_policy(FdPolicy::PerCore).unwrap();
    per_core.open("/file", libc::O_RDWR, 0).unwrap();
    process.flock(fd, libc::LOCK_EX).unwrap();
    process.close(fd).unwrap();
    let profile = turn.volume.lock_profile();
    let expected = [
        ("directory.bucket", LockSide::Write),
        ("directory.grow", LockSide::Write),
        ("volume.rename", LockSide::Write),
        ("inode.change", LockSide::Write),
        ("inode.growth", LockSide::Write),
        ("inode.gate", LockSide::Read),
        ("inode.gate", LockSide::Write),
        ("inode.meta", LockSide::Write),
        ("data.page", LockSide::Write),
        ("file.position", LockSide::Write),
        ("fd-alloc", LockSide::Write),
        ("fd-block", LockSide::Write),
        ("file-locks", LockSide::Write),
        ("file-locks.user", LockSide::Write),
    ];
    for (class, side) in expected {
        assert!(
            has(&profile, class, side),
            "{class} {side:?}\n{}",
            profile.text(Default::default())
        );
    }
}

#[test]
fn a_wait_for_a_user_lock_is_told_as_long_as_it_was() {
    let turn = Turn::new();
    let fd = turn.make("/file");
    turn.process.flock(fd, libc::LOCK_EX).unwrap();
    let other = turn.volume.process(Credentials::root());
    assert!(turn.volume.start_lock_profile(LockSampling::Adaptive));
    let (least, most) = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let fd = other.open("/file", libc::O_RDWR, 0).unwrap();
            let asked = std::time::Instant::now();
            other.flock(fd, libc::LOCK_EX).unwrap();
            (asked, asked.elapsed())
        });
        while turn
            .volume
            .lock_profile()
            .locks
            .iter()
            .all(|row| row.class != "file-locks")
        {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(40));
        let given = std::time::Instant::now();
        turn.process.flock(fd, libc::LOCK_UN).unwrap();
        let (asked, most) = waiter.join().unwrap();
        (given - asked, most)
    });
    let profile = turn.volume.lock_profile();
    let row = profile
        .locks
        .iter()
        .find(|row| row.class == "file-locks.user")
        .unwrap();
    let counts = row.counts();
    assert_eq!((counts.free, counts.waited, counts.timed), (0, 1, 0));
    let wait = Duration::from_nanos(counts.wait_ns);
    assert!(wait >= least && wait <= most, "{least:?} {wait:?} {most:?}");
    let columns = Columns::of(&counts, row.side, profile.elapsed_ns);
    assert_eq!(
        (columns.con, columns.hold_mean, columns.util),
        (Some(100.0), None, None)
    );
}

/// Sixteen threads that locked files of their own once waited for one account of their process.
#[test]
fn who_locks_and_unlocks_a_range_takes_no_lock_but_that_of_the_file() {
    let turn = Turn::new();
    let fd = turn.make("/file");
    assert!(turn.volume.start_lock_profile(LockSampling::Adaptive));
    for kind in [LockKind::Write, LockKind::Unlock] {
        let spec = LockSpec {
            kind,
            whence: libc::SEEK_SET,
            start: 0,
            len: 1,
        };
        turn.process.set_lock(fd, &spec, None).unwrap();
    }
    let profile = turn.volume.lock_profile();
    let classes: Vec<_> = profile.locks.iter().map(|row| &*row.class).collect();
    assert!(classes.contains(&"file-locks"), "{classes:?}");
    let others = ["file-locks.user", "file-locks"];
    assert!(
        classes.iter().all(|class| others.contains(class)),
        "{classes:?}"
    );
}
