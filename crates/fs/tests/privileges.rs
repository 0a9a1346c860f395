//! What a program loses when it is changed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::backend::TestBackend;
use hearth::{Caller, Credentials, Fd, Origin, Process, Volume, WriteAt};
use std::sync::Arc;

const CAPABILITY: &[u8] = b"security.capability";

/// A program with capabilities that somebody else owns, open for writing.
fn program(volume: &Volume) -> (Process, Fd) {
    let p = volume.process(Credentials::root());
    let fd = p.open("/f", libc::O_CREAT | libc::O_RDWR, 0o755).unwrap();
    p.write(fd, &[7; 10_000]).unwrap();
    p.setxattr("/f", CAPABILITY, &[1; 20], 0).unwrap();
    p.setxattr("/f", b"user.kept", b"value", 0).unwrap();
    (p, fd)
}

/// Whether the capabilities go with `change`, which leaves other attributes alone.
fn takes(change: impl FnOnce(&Process, Fd)) -> bool {
    let (p, fd) = program(&Volume::memory());
    change(&p, fd);
    assert_eq!(&*p.getxattr("/f", b"user.kept").unwrap(), b"value");
    p.getxattr("/f", CAPABILITY).is_err()
}

/// Root's too: Linux asks nobody.
#[test]
fn a_program_that_is_changed_loses_its_capabilities() {
    assert!(takes(|p, fd| assert_eq!(p.pwrite(fd, b"x", 1), Ok(1))));
    assert!(takes(|p, fd| assert_eq!(p.write(fd, b"behind"), Ok(6))));
    assert!(takes(|p, fd| p.ftruncate(fd, 5).unwrap()));
    assert!(takes(|p, _| p.truncate("/f", 10_000).unwrap()));
    assert!(takes(|p, _| {
        p.open("/f", libc::O_WRONLY | libc::O_TRUNC, 0).unwrap();
    }));
    assert!(takes(|p, fd| p.fallocate(fd, 0, 0, 20_000).unwrap()));
    assert!(takes(|p, fd| {
        let (mut from, mut to) = (0, 4096);
        let ends = ((fd, Some(&mut from)), (fd, Some(&mut to)));
        p.copy_file_range(ends.0, ends.1, 100, 0).unwrap();
    }));
    assert!(takes(|p, _| p.chown("/f", Some(1000), None).unwrap()));
    assert!(takes(|p, _| p.chown("/f", None, None).unwrap()));
}

#[test]
fn a_program_that_is_used_keeps_its_capabilities() {
    assert!(!takes(|p, fd| assert_eq!(
        p.pread(fd, &mut [0; 9], 0),
        Ok(9)
    )));
    assert!(!takes(|p, fd| assert_eq!(p.pwrite(fd, b"", 1), Ok(0))));
    assert!(!takes(|p, _| p.chmod("/f", 0o700).unwrap()));
    assert!(!takes(|p, _| p.link("/f", "/g").unwrap()));
    assert!(!takes(|p, _| p
        .setxattr("/f", b"user.more", b"", 0)
        .unwrap()));
}

#[test]
fn a_program_that_was_forgotten_loses_its_capabilities_as_well() {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder().backend(backend).build().unwrap();
    let (p, fd) = program(&volume);
    p.close(fd).unwrap();
    volume.sync().unwrap();
    assert!(volume.reclaim(u64::MAX / 2) > 0);
    assert_eq!(p.getxattr("/f", CAPABILITY).unwrap().len(), 20);
    volume.reclaim(u64::MAX / 2);
    let fd = p.open("/f", libc::O_WRONLY, 0).unwrap();
    p.pwrite(fd, b"x", 0).unwrap();
    assert!(p.getxattr("/f", CAPABILITY).is_err());
}

/// A kernel in front took them away when it acknowledged the write; what comes later may be about
/// a program that was given capabilities since.
#[test]
fn what_a_kernel_writes_back_takes_no_capabilities_and_what_it_passes_on_does() {
    let volume = Volume::memory();
    let (p, _) = program(&volume);
    let (vfs, ino) = (volume.vfs(), p.stat("/f").unwrap().ino);
    let kernel = Caller {
        origin: Origin::Kernel,
        ..Caller::ROOT
    };
    vfs.write_back(&kernel, ino, 0, b"old", false, true)
        .unwrap();
    assert_eq!(p.getxattr("/f", CAPABILITY).unwrap().len(), 20);
    let file = vfs.open(&kernel, ino, libc::O_WRONLY).unwrap();
    vfs.write(&kernel, &file, WriteAt::At(0), b"new", false)
        .unwrap();
    vfs.release(&file, None);
    assert!(p.getxattr("/f", CAPABILITY).is_err());
}
