//! A write that the disk refuses when nobody waits for it: whoever has the file open is told once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod served;

use hearth::{Errno, ROOT, SetAttr, Vfs, VfsError, Volume, WriteAt};
use hearth_host::{HostFile, HostOptions, HostVfs};
use hearth_testing::place::Place;
use rustix::fs::statvfs;
use served::CALLER;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// More than a disk that is about to be full takes.
const MUCH: usize = 24 << 20;
const ROOM: u64 = 400 << 20;

/// A filesystem on a disk that takes as much as is left in `memory`.
struct Disk {
    memory: PathBuf,
    source: PathBuf,
}

impl Disk {
    fn made(place: &Place) -> Disk {
        let memory = place.directory("memory").unwrap();
        let source = place.directory("source").unwrap();
        succeed(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=400m", "none"])
                .arg(&memory),
        );
        let disk = Disk { memory, source };
        let image = disk.memory.join("disk");
        File::create(&image).unwrap().set_len(320 << 20).unwrap();
        let ext4 = ["-q", "-F", "-b", "4096", "-O", "^has_journal"];
        succeed(Command::new("mkfs.ext4").args(ext4).arg(&image));
        succeed(
            Command::new("mount")
                .args(["-o", "loop"])
                .args([&image, &disk.source]),
        );
        disk
    }

    /// It takes `bytes` in all.
    fn limit(&self, bytes: u64) {
        let size = format!("remount,size={bytes}");
        succeed(Command::new("mount").args(["-o", &size]).arg(&self.memory));
    }

    fn used(&self) -> u64 {
        rustix::fs::sync();
        let found = statvfs(&self.memory).unwrap();
        (found.f_blocks - found.f_bfree) * found.f_frsize
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for path in [&self.source, &self.memory] {
            let _ = Command::new("umount").arg("-l").arg(path).status();
        }
    }
}

fn succeed(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

fn open(source: &Path) -> (Volume, HostVfs) {
    let volume = Volume::builder().build().unwrap();
    let vfs = HostVfs::open(source, HostOptions::default(), &volume).unwrap();
    (volume, vfs)
}

fn is_lost(vfs: &HostVfs, file: &HostFile) -> bool {
    match vfs.fsync(file, false) {
        Ok(()) => false,
        Err(VfsError::Errno(Errno::EIO | Errno::ENOSPC)) => true,
        Err(other) => panic!("{other:?}"),
    }
}

/// Once, the one who had closed a copy of its descriptor behind the error was not told.
#[test]
fn whoever_has_a_program_open_is_told_once_of_what_was_lost() {
    let place = Place::new("lost-writes").unwrap();
    let disk = Disk::made(&place);
    let (volume, vfs) = open(&disk.source);
    let flags = libc::O_CREAT | libc::O_RDWR;
    let made = vfs.create(&CALLER, ROOT, b"run", 0o755, flags);
    let (attr, first) = made.unwrap();
    let second = vfs.open(&CALLER, attr.ino, libc::O_WRONLY).unwrap();
    let third = vfs.open(&CALLER, attr.ino, libc::O_WRONLY).unwrap();
    let lose = |at: usize| {
        assert!(!is_lost(&vfs, &first));
        disk.limit(disk.used() + (1 << 20));
        let data = vec![1; MUCH];
        let place = WriteAt::At(at as u64);
        vfs.write(&CALLER, &first, place, &data, false).unwrap();
        assert!(is_lost(&vfs, &first));
        disk.limit(ROOM);
    };
    lose(0);
    // It goes on with another descriptor from now on, and with one more behind it.
    vfs.flush(&second, 0).unwrap();
    vfs.flush(&third, 0).unwrap();
    vfs.flush(&third, 0).unwrap();
    assert!(is_lost(&vfs, &second));
    assert!(!is_lost(&vfs, &second) && !is_lost(&vfs, &first));
    lose(MUCH);
    let size = SetAttr {
        size: Some(MUCH as u64),
        ..SetAttr::default()
    };
    vfs.setattr(&CALLER, attr.ino, Some(&second), &size)
        .unwrap();
    assert!(is_lost(&vfs, &second));
    assert!(!is_lost(&vfs, &second));
    // Nobody asked it before, and it was told of both at once, as by any filesystem.
    assert!(is_lost(&vfs, &third));
    assert!(!is_lost(&vfs, &third));
    for file in [first, second, third] {
        vfs.release(&file, None);
    }
    drop((vfs, volume, disk));
}
