//! How many inodes a daemon keeps: `docs/design/host.md`, "How many inodes there are".

use crate::harness::{Below, Mounted, Transport, hearth, refused, said, succeed, until};
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use hearth_sync::primitive::thread;
use hearth_testing::threads::SetOnDrop;
use rustix::fs::{Mode, OFlags, open};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

const DIRECTORIES: usize = 60;
const EACH: usize = 1_000;
const ALL: usize = DIRECTORIES * EACH;
/// What `memory=16M` lets a daemon keep, and half as many that come before the kernel has given
/// back others.
const MOST: f64 = ((16 << 20) / 704 * 3 / 2) as f64;

/// 60,000 files, the first of each directory with its number inside.
fn fill(root: &Path) {
    for directory in 0..DIRECTORIES {
        let directory = root.join(directory.to_string());
        fs::create_dir(&directory).unwrap();
        fs::write(
            directory.join("0"),
            directory.file_name().unwrap().as_bytes(),
        )
        .unwrap();
        for file in 1..EACH {
            fs::File::create(directory.join(file.to_string())).unwrap();
        }
    }
}

/// Looks up all files, and returns how many there are and the sum of their numbers.
fn walk(root: &Path) -> (usize, u64) {
    let (mut files, mut sum) = (0, 0);
    for directory in 0..DIRECTORIES {
        for entry in fs::read_dir(root.join(directory.to_string())).unwrap() {
            let entry = entry.unwrap();
            let stat = fs::metadata(entry.path()).unwrap();
            assert_eq!(stat.ino(), entry.metadata().unwrap().ino());
            (files, sum) = (files + 1, sum + stat.ino());
        }
    }
    (files, sum)
}

/// Walks, and returns the most inodes that were in memory meanwhile.
fn most_while_walking(mounted: &Mounted, wanted: (usize, u64)) -> f64 {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = SetOnDrop(&ends);
        let watcher = scope.spawn(|| {
            let mut most: f64 = 0.0;
            while !ends.load(Relaxed) {
                most = most.max(mounted.stat("hearth_inodes_in_memory"));
                thread::sleep(Duration::from_millis(20));
            }
            most
        });
        let walked = [0, 1].map(|_| walk(mounted.path()));
        drop(end);
        assert_eq!(walked, [wanted; 2]);
        watcher.join().unwrap()
    })
}

fn check(transport: Transport) {
    let below = Below::tmpfs();
    fill(below.path());
    let wanted = walk(below.path());
    assert_eq!(wanted.0, ALL);
    let mounted = Mounted::over(transport, below.path(), "memory=16M,quota=wait");
    // These stay in use: a directory that somebody is in, and a file that somebody has open,
    // removed as well.
    // CLOEXEC: programs that other tests start must not hold it.
    let path_only = OFlags::PATH | OFlags::CLOEXEC;
    let inside = open(mounted.at("7"), path_only, Mode::empty()).unwrap();
    let held = fs::File::open(mounted.at("42/0")).unwrap();
    fs::write(mounted.at("gone"), "gone").unwrap();
    let gone = fs::File::open(mounted.at("gone")).unwrap();
    fs::remove_file(mounted.at("gone")).unwrap();

    let most = most_while_walking(&mounted, wanted);
    println!("{most} of {ALL} inodes at once");
    assert!(most > 1000.0, "the walk was not seen: {most}");
    assert!(most < MOST, "{most} inodes at once");
    until("room is made", || {
        mounted.stat("hearth_inodes_in_memory") < MOST / 1.5
    });

    let mut bytes = [0; 16];
    let len = held.read_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes[..len], b"42");
    assert_eq!(
        held.metadata().unwrap().ino(),
        fs::metadata(below.at("42/0")).unwrap().ino()
    );
    let len = gone.read_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes[..len], b"gone");
    let inside_again = format!("/proc/self/fd/{}", inside.as_raw_fd());
    assert_eq!(fs::read_dir(inside_again).unwrap().count(), EACH);
    drop((inside, held, gone));
    fs::write(mounted.at("13/new"), "new").unwrap();
    assert_eq!(fs::read(below.at("13/new")).unwrap(), b"new");
    let told = succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
    println!("{told}");
    mounted.unmount();
}

#[test]
fn inodes_that_nobody_uses_are_given_back_when_memory_is_short_over_dev() {
    check(Transport::Dev);
}

#[test]
fn inodes_that_nobody_uses_are_given_back_when_memory_is_short_over_uring() {
    check(Transport::Uring);
}

#[test]
fn a_bound_that_cannot_hold_is_refused_with_what_may_be_given() {
    let below = Below::tmpfs();
    let place = below.outside("place");
    let mut mount = hearth();
    mount.arg("mount").args(["-o", "memory=1k"]);
    let typed = said(mount.arg(below.path()).arg(&place));
    refused("memory=1k", &typed, 2, &["memory=1k", "at least 16 MiB"]);
}
