//! Calls that the kernel repeats because they were told that an inode is gone.

#![allow(clippy::unwrap_used)]

use hearth::{Caller, Errno, Origin, ROOT, Vfs, VfsError, Volume};
use hearth_host::{HostOptions, HostVfs};
use hearth_testing::place::Place;
use std::fs;
use std::path::Path;

/// A caller in the kernel, as thread 7.
const CALLER: Caller<'static> = Caller {
    pid: 7,
    origin: Origin::Kernel,
    ..Caller::ROOT
};

fn errno(error: VfsError) -> Errno {
    match error {
        VfsError::Errno(errno) => errno,
        other => panic!("{other:?}"),
    }
}

/// A directory that stood in for another, which a caller was told to be gone by `told`, and is gone
/// itself when the caller opens it.
fn opened_when_gone(told: impl FnOnce(&HostVfs, u64), then: impl FnOnce(&Path)) -> [Errno; 2] {
    let place = Place::new("repeated").unwrap();
    let volume = Volume::builder().build().unwrap();
    let vfs = HostVfs::open(place.path(), HostOptions::default(), &volume).unwrap();
    let directory = place.path().join("d");
    fs::create_dir(&directory).unwrap();
    let first = vfs.lookup(&CALLER, ROOT, b"d").unwrap();
    fs::remove_dir(&directory).unwrap();
    told(&vfs, first.ino);

    fs::create_dir(&directory).unwrap();
    let second = vfs.lookup(&CALLER, ROOT, b"d").unwrap();
    assert_eq!(vfs.getattr(&CALLER, second.ino).unwrap().ino, second.ino);
    fs::remove_dir(&directory).unwrap();
    then(&directory);
    [(); 2].map(|()| {
        let opened = vfs.open(&CALLER, second.ino, libc::O_DIRECTORY);
        opened.map_or_else(errno, |_| Errno(0))
    })
}

fn by_open(vfs: &HostVfs, ino: u64) {
    let opened = vfs.open(&CALLER, ino, libc::O_DIRECTORY);
    assert_eq!(errno(opened.unwrap_err()), Errno::ESTALE);
}

fn by_attributes(vfs: &HostVfs, ino: u64) {
    let attributes = vfs.getattr(&CALLER, ino);
    assert_eq!(errno(attributes.unwrap_err()), Errno::ESTALE);
}

/// What the second look has found is opened, as by one system call.
#[test]
fn a_directory_that_is_gone_since_the_second_look_is_opened_once() {
    let opened = opened_when_gone(by_open, |_| ());
    assert_eq!(opened, [Errno(0), Errno::ESTALE]);
}

/// The kernel asks for attributes on its way to an open. It does not look a third time: `ESTALE`
/// went to the program.
#[test]
fn a_directory_that_is_gone_since_a_look_after_stale_attributes_is_not_there() {
    let opened = opened_when_gone(by_attributes, |_| ());
    assert_eq!(opened, [Errno::ENOENT, Errno::ESTALE]);
}

/// The kernel, which believed in the name, looks twice if it is not there. `ESTALE` went to the
/// program.
#[test]
fn a_directory_that_was_missed_and_found_and_is_gone_again_is_not_there() {
    let by_open_then_missed = |vfs: &HostVfs, ino| {
        by_open(vfs, ino);
        let missed = vfs.lookup(&CALLER, ROOT, b"d");
        assert_eq!(errno(missed.unwrap_err()), Errno::ENOENT);
    };
    let opened = opened_when_gone(by_open_then_missed, |_| ());
    assert_eq!(opened, [Errno::ENOENT, Errno::ESTALE]);
}

/// It may as well have been a `stat`, which is over. The kernel opens by the name that it believes.
#[test]
fn a_directory_whose_name_is_anothers_since_a_stat_is_looked_up_again() {
    let opened = opened_when_gone(by_attributes, |directory| {
        fs::write(directory, "text").unwrap();
    });
    assert_eq!(opened[0], Errno::ESTALE);
}

/// A thread that was told `ESTALE` once may as well go over a whole tree within the second.
#[test]
fn few_descriptors_are_kept_for_a_caller_that_looks_at_a_whole_tree() {
    let place = Place::new("tree").unwrap();
    let volume = Volume::builder().build().unwrap();
    let vfs = HostVfs::open(place.path(), HostOptions::default(), &volume).unwrap();
    let names: Vec<_> = (0..300).map(|n| n.to_string()).collect();
    for name in &names {
        fs::write(place.path().join(name), "").unwrap();
    }
    fs::create_dir(place.path().join("d")).unwrap();
    let first = vfs.lookup(&CALLER, ROOT, b"d").unwrap();
    fs::remove_dir(place.path().join("d")).unwrap();
    by_open(&vfs, first.ino);
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let (before, mut most) = (open(), 0);
    for names in names.chunks(25) {
        for name in names {
            vfs.lookup(&CALLER, ROOT, name.as_bytes()).unwrap();
        }
        most = most.max(open().saturating_sub(before));
    }
    assert!((25..150).contains(&most), "{most}");
}

/// `ls` in a directory that a caller of the mount has removed or replaced: nobody reaches it by its
/// old name, so the kernel looks for nothing again, and no other directory can be meant.
#[test]
fn a_directory_that_callers_removed_is_opened_by_whoever_is_in_it() {
    let place = Place::new("in-removed").unwrap();
    let volume = Volume::builder().build().unwrap();
    let vfs = HostVfs::open(place.path(), HostOptions::default(), &volume).unwrap();
    let [removed, replaced, other] = [b"a", b"b", b"c"].map(|name| {
        let made = vfs.mkdir(&CALLER, ROOT, name, 0o755);
        made.unwrap().ino
    });
    vfs.rmdir(&CALLER, ROOT, b"a").unwrap();
    vfs.mkdir(&CALLER, ROOT, b"a", 0o755).unwrap();
    vfs.rename(&CALLER, ROOT, b"c", ROOT, b"b", 0).unwrap();
    for ino in [removed, replaced, other] {
        vfs.open(&CALLER, ino, libc::O_DIRECTORY).unwrap();
    }
}
