//! Programs that are written through a mount and executed by their paths below. The kernel tells of
//! the end of an open file (RELEASE) only after its close has returned, so here it never does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod served;

use hearth::{
    Caller, Errno, KernelCache, Origin, ROOT, SetAttr, Vfs, VfsError, VfsFile, VfsResult, Volume,
    WriteAt,
};
use hearth_host::{HostFile, HostOptions, HostVfs};
use hearth_testing::place::Place;
use served::{CALLER, Served, directories};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

const USER: Caller<'static> = Caller {
    uid: 1000,
    gid: 1000,
    groups: &[],
    pid: 0,
    umask: 0,
    origin: Origin::Kernel,
};

struct Mount {
    vfs: HostVfs,
    source: PathBuf,
    _volume: Volume,
    _place: Place,
}

impl Mount {
    fn new(name: &str) -> Mount {
        let place = Place::new(name).unwrap();
        let source = place.directory("source").unwrap();
        let volume = Volume::builder().build().unwrap();
        let vfs = HostVfs::open(&source, HostOptions::default(), &volume).unwrap();
        Mount {
            vfs,
            source,
            _volume: volume,
            _place: place,
        }
    }

    /// With a program that one who has it open still has closed once.
    fn closed(name: &str, mode: u16, access: i32) -> (Mount, u64, Arc<HostFile>) {
        let mount = Mount::new(name);
        let (ino, file) = mount.written(mode, access);
        mount.vfs.flush(&file, 0).unwrap();
        (mount, ino, file)
    }

    /// Makes `run` and writes a program to it.
    fn written(&self, mode: u16, access: i32) -> (u64, Arc<HostFile>) {
        let flags = libc::O_CREAT | libc::O_EXCL | access;
        let made = self.vfs.create(&CALLER, ROOT, b"run", mode, flags);
        let (attr, file) = made.unwrap();
        let program = fs::read("/bin/sleep").unwrap();
        let place = WriteAt::At(0);
        let written = self.vfs.write(&CALLER, &file, place, &program, false);
        assert_eq!(written.unwrap(), program.len());
        (attr.ino, file)
    }

    /// Runs it. What another test starts at this moment may have the descriptor of this one too.
    fn run(&self) {
        let end = Instant::now() + Duration::from_secs(5);
        while self.is_busy() {
            assert!(Instant::now() < end, "it is not open for writing any more");
        }
    }

    /// Runs it, unless it is open for writing.
    fn is_busy(&self) -> bool {
        match self.try_start(0) {
            Ok(mut child) => {
                assert!(child.wait().unwrap().success());
                false
            }
            Err(error) => error.raw_os_error() == Some(libc::ETXTBSY),
        }
    }

    /// Starts it. What another test starts at this moment may have the descriptor of this one too.
    fn start(&self, seconds: u32) -> Child {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            match self.try_start(seconds) {
                Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => {
                    assert!(Instant::now() < end, "it is not open for writing any more");
                }
                started => return started.unwrap(),
            }
        }
    }

    fn try_start(&self, seconds: u32) -> io::Result<Child> {
        let mut program = Command::new(self.source.join("run"));
        program.arg(seconds.to_string()).spawn()
    }

    fn chmod(&self, ino: u64, mode: u16) {
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        self.vfs.setattr(&CALLER, ino, None, &set).unwrap();
    }

    /// Writes one byte behind a program.
    fn append(&self, file: &HostFile) -> VfsResult<usize> {
        self.vfs.write(&CALLER, file, WriteAt::End, b"x", false)
    }

    /// All that takes a file that is open for writing, beside a write: `then` after each.
    fn change_by_handle(&self, (ino, file): (u64, &HostFile), then: impl Fn()) {
        let size = self.len();
        let longer = SetAttr {
            size: Some(size + 100),
            ..SetAttr::default()
        };
        let cut = self.vfs.setattr(&CALLER, ino, Some(file), &longer);
        assert_eq!(cut.unwrap().size, size + 100);
        then();
        let allocated = self.vfs.fallocate(&CALLER, file, 0, size, 4096);
        allocated.unwrap();
        then();
        let (from, to) = ((file, 0), (file, size));
        let copied = self.vfs.copy_file_range(&CALLER, from, to, 4, 0);
        assert_eq!(copied.unwrap(), 4);
        then();
    }

    fn len(&self) -> u64 {
        fs::metadata(self.source.join("run")).unwrap().len()
    }
}

/// Once, it could not be for a moment: three times of 150 on a busy machine.
#[test]
fn a_program_runs_by_its_path_below_from_its_close_on() {
    for access in [libc::O_WRONLY, libc::O_RDWR] {
        let mount = Mount::new("program-runs");
        let (_, file) = mount.written(0o755, access);
        assert!(mount.is_busy(), "it is open for writing");
        mount.vfs.flush(&file, 0).unwrap();
        mount.run();
        mount.vfs.release(&file, None);
        mount.run();
    }
}

/// Linkers make what they have written executable when it is closed.
#[test]
fn a_file_that_becomes_a_program_when_it_is_closed_runs_at_once() {
    let (mount, ino, file) = Mount::closed("program-becomes", 0o644, libc::O_WRONLY);
    mount.chmod(ino, 0o755);
    mount.run();
    // Whoever writes on has it open.
    mount.append(&file).unwrap();
    mount.chmod(ino, 0o700);
    assert!(mount.is_busy());
    mount.vfs.release(&file, None);
    mount.run();
}

#[test]
fn whoever_has_a_program_open_after_a_close_goes_on() {
    let (mount, ino, file) = Mount::closed("program-again", 0o755, libc::O_RDWR);
    let size = mount.len();
    // Nobody may write to it but who has it open.
    mount.chmod(ino, 0o555);
    assert_eq!(mount.append(&file).unwrap(), 1);
    assert!(mount.is_busy(), "it is written to again");
    mount.vfs.flush(&file, 0).unwrap();
    mount.run();
    let mut first = [0; 4];
    assert_eq!(mount.vfs.read(&file, 0, &mut first).unwrap(), 4);
    assert_eq!(&first, b"\x7fELF");
    mount.vfs.fsync(&file, false).unwrap();
    mount.vfs.lseek(&file, 0, libc::SEEK_DATA).unwrap();
    mount.vfs.flush(&file, 0).unwrap();
    mount.change_by_handle((ino, &file), || mount.vfs.flush(&file, 0).unwrap());
    // What a mapping has stored.
    let stored = mount
        .vfs
        .write_back(&CALLER, ino, size, b"stored", false, true);
    assert_eq!(stored.unwrap(), 6);
    mount.run();
    assert!(VfsFile::writable(&*file));
    let bytes = fs::read(mount.source.join("run")).unwrap();
    assert_eq!(&bytes[size as usize..][..6], b"stored");
    mount.vfs.release(&file, None);
}

/// The other side of giving it up, which no program would come to see below: there it does not run.
#[test]
fn a_program_that_runs_meanwhile_is_not_written_to() {
    let (mount, ino, file) = Mount::closed("program-busy", 0o755, libc::O_WRONLY);
    let size = mount.len();
    let mut running = mount.start(30);
    let refused = mount.append(&file).unwrap_err();
    assert!(matches!(refused, VfsError::Errno(Errno(libc::ETXTBSY))));
    assert_eq!(mount.len(), size);
    // What a mapping has stored nobody can store again: it waits.
    std::thread::scope(|scope| {
        let stored = scope.spawn(|| {
            mount
                .vfs
                .write_back(&CALLER, ino, 0, b"\x7fELF", false, true)
        });
        std::thread::sleep(Duration::from_millis(100));
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(stored.join().unwrap().unwrap(), 4);
    });
    mount.append(&file).unwrap();
    assert_eq!(mount.len(), size + 1);
    mount.vfs.release(&file, None);
}

#[test]
fn what_has_no_name_and_what_is_no_program_stays_open() {
    let mount = Mount::new("program-kept");
    let (_, file) = mount.written(0o755, libc::O_RDWR);
    mount.vfs.unlink(&CALLER, ROOT, b"run").unwrap();
    mount.vfs.flush(&file, 0).unwrap();
    mount.append(&file).unwrap();
    mount.vfs.release(&file, None);
    let (_, plain) = mount.written(0o600, libc::O_WRONLY);
    mount.vfs.flush(&plain, 0).unwrap();
    // It is no program, so whatever becomes of its mode, nothing is opened again.
    fs::set_permissions(
        mount.source.join("run"),
        std::os::unix::fs::PermissionsExt::from_mode(0o000),
    )
    .unwrap();
    assert_eq!(mount.append(&plain).unwrap(), 1);
    mount.vfs.release(&plain, None);
}

/// A program of somebody who is not root, written with the rights of then.
#[test]
fn a_user_goes_on_writing_to_what_may_no_longer_be_opened() {
    let mount = Mount::new("program-user");
    fs::set_permissions(
        &mount.source,
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let flags = libc::O_CREAT | libc::O_WRONLY;
    let made = mount.vfs.create(&USER, ROOT, b"run", 0o555, flags);
    let (_, file) = made.unwrap();
    let write = || {
        mount
            .vfs
            .write(&USER, &file, WriteAt::End, b"#!/bin/sh\n", true)
    };
    write().unwrap();
    mount.vfs.flush(&file, 0).unwrap();
    mount.run();
    assert_eq!(write().unwrap(), 10);
    mount.vfs.release(&file, None);
    assert_eq!(mount.len(), 20);
}

/// Once, each page waited for itself: what one request may have of them was 43 minutes.
#[test]
fn what_waits_for_a_program_that_does_not_end_waits_once() {
    let (mount, ino, file) = Mount::closed("program-forever", 0o755, libc::O_WRONLY);
    let mut running = mount.start(60);
    let store = || {
        let stored = mount
            .vfs
            .write_back(&CALLER, ino, 0, b"\x7fELF", false, true);
        matches!(stored, Err(VfsError::Errno(Errno(libc::ETXTBSY))))
    };
    assert!(store());
    let first = Instant::now();
    assert!(store() && store() && store());
    assert!(first.elapsed() < Duration::from_secs(5));
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(!store());
    mount.vfs.release(&file, None);
}

/// Once, it had the lock that whoever changes this file takes.
#[test]
fn nobody_waits_for_what_waits_for_a_program() {
    let (place, source, state) = directories("program-quotas");
    let served = Served::of(&source, &state);
    let flags = libc::O_CREAT | libc::O_WRONLY;
    let made = served.vfs.create(&CALLER, ROOT, b"run", 0o755, flags);
    let (attr, file) = made.unwrap();
    let program = fs::read("/bin/sleep").unwrap();
    let place_of = WriteAt::At(0);
    served
        .vfs
        .write(&CALLER, &file, place_of, &program, false)
        .unwrap();
    served.vfs.flush(&file, 0).unwrap();
    let mut running = Command::new(source.join("run")).arg("60").spawn().unwrap();
    std::thread::scope(|scope| {
        let stored = scope.spawn(|| {
            served
                .vfs
                .write_back(&CALLER, attr.ino, 0, b"\x7fELF", false, true)
        });
        std::thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        let set = served
            .vfs
            .setxattr(&CALLER, attr.ino, b"user.a", b"1", 0, false);
        let took = begun.elapsed();
        running.kill().unwrap();
        running.wait().unwrap();
        set.unwrap();
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(stored.join().unwrap().unwrap(), 4);
    });
    served.vfs.release(&file, None);
    drop((served, place));
}

/// Once, such a close was the last request before RELEASE: nothing came that gave it up.
#[test]
fn a_change_by_a_handle_that_sends_no_flush_leaves_it_given_up() {
    let mount = Mount::new("program-no-flush");
    let (ino, file) = mount.written(0o644, libc::O_RDWR);
    VfsFile::set_passed_through(&*file);
    assert!(!VfsFile::needs_flush(&*file));
    mount.chmod(ino, 0o755);
    mount.run();
    mount.change_by_handle((ino, &file), || mount.run());
    mount.vfs.release(&file, None);
}
