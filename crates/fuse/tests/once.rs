//! A volume is mounted once at a time, and what a kernel has looked up is given back at the end of
//! its mount.

#![allow(clippy::unwrap_used)]

mod harness;

use hearth::{Credentials, Observer, Volume};
use hearth_fuse::{MountError, MountOptions, Session};
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn start(volume: &Volume, place: &Path) -> Result<Session, MountError> {
    Session::start(volume.clone(), place, MountOptions::default())
}

/// By another process: this one answers the kernel.
fn run(program: &str, path: &Path) {
    let done = Command::new(program).arg(path).output().unwrap();
    assert!(done.status.success(), "{program}: {done:?}");
}

#[test]
fn a_second_mount_of_a_volume_is_refused_with_the_place_of_the_first() {
    let (a, b) = (harness::fresh_directory(), harness::fresh_directory());
    let volume = Volume::memory();
    let first = start(&volume, &a).unwrap();
    let refused = start(&volume, &b).unwrap_err();
    assert!(matches!(&refused, MountError::Served { path, first } if *path == b && *first == a));
    assert!(refused.to_string().contains(&a.display().to_string()));
    let other = start(&Volume::memory(), &b).expect("another volume may be there");
    drop(other);

    first.unmount().unwrap();
    let second = start(&volume, &b).expect("the first is gone");
    first.unmount().unwrap();
    drop(first);
    start(&volume, &a).expect_err("the end of the first does not end the second");
    run("umount", &b);
    assert!((0..30).any(|_| second.has_ended()));
    let third = start(&volume, &a).expect("somebody else has unmounted the second");
    drop(second);
    start(&volume, &b).expect_err("the third is there");
    drop(third);
    start(&volume, &b.join("none")).expect_err("a mount that fails");
    drop(start(&volume, &b).expect("takes no place"));
    for place in [a, b] {
        std::fs::remove_dir(place).unwrap();
    }
}

/// A program that hears of changes itself.
struct Listener;

impl Observer for Listener {
    fn entry_changed(&self, _: u64, _: &[u8]) {}
    fn inode_changed(&self, _: u64, _: Option<Range<u64>>) {}
}

#[test]
fn what_a_kernel_has_looked_up_is_given_back_though_the_program_observes_the_volume() {
    let place = harness::fresh_directory();
    let volume = Volume::memory();
    volume.observe(Arc::new(Listener));
    let process = volume.process(Credentials::root());
    let session = start(&volume, &place).unwrap();
    let before = volume.inodes_in_memory();
    let fd = process
        .open("/f", libc::O_CREAT | libc::O_RDWR, 0o644)
        .unwrap();
    process.close(fd).unwrap();
    run("stat", &place.join("f"));
    session.unmount().unwrap();
    process.unlink("/f").unwrap();
    assert_eq!(volume.inodes_in_memory(), before);
    std::fs::remove_dir(place).unwrap();
}
