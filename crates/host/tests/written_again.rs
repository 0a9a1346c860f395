//! A program that is open for writing stays so, whatever right the daemon has to open it again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod served;

use hearth::{Caller, Errno, Origin, ROOT, SetAttr, Vfs, VfsError, Volume, WriteAt};
use hearth_host::{HostFile, HostOptions, HostVfs};
use hearth_testing::place::Place;
use rustix::fs::{Gid, Uid, chown};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_gid,
    set_thread_groups, set_thread_uid,
};
use served::CALLER;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const USER: u32 = 1000;
const GROUP: u32 = 2000;
/// A member of [`GROUP`], by which alone it may write.
const MEMBER: Caller<'static> = Caller {
    uid: USER,
    gid: USER,
    groups: &[GROUP],
    pid: 0,
    umask: 0,
    origin: Origin::Kernel,
};
const ACL: &[u8] = b"system.posix_acl_access";

/// A directory that everybody may write to, served by a thread that has taken `rights`.
fn served_with(name: &str, rights: fn(), test: fn(&HostVfs, &Path)) {
    let place = Place::new(name).unwrap();
    let source: PathBuf = place.directory("source").unwrap();
    for path in [place.path(), &source] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let serve = move || {
        rights();
        let volume = Volume::builder().build().unwrap();
        let vfs = HostVfs::open(&source, HostOptions::default(), &volume).unwrap();
        test(&vfs, &source);
    };
    std::thread::spawn(serve).join().unwrap();
}

/// Root as in a container that leaves it this much.
fn without_override() {
    let had = capabilities(None).unwrap();
    let left = |had: CapabilitySet| had - CapabilitySet::DAC_OVERRIDE;
    let sets = CapabilitySets {
        effective: left(had.effective),
        permitted: left(had.permitted),
        inheritable: left(had.inheritable),
    };
    set_capabilities(None, sets).unwrap();
}

fn of_a_user() {
    set_thread_groups(&[]).unwrap();
    set_thread_gid(Gid::from_raw(USER)).unwrap();
    set_thread_uid(Uid::from_raw(USER)).unwrap();
}

fn append(vfs: &HostVfs, caller: &Caller<'_>, file: &HostFile) -> usize {
    let written = vfs.write(caller, file, WriteAt::End, b"#!/bin/sh\n", true);
    written.unwrap()
}

fn mode(bits: u16) -> SetAttr {
    SetAttr {
        mode: Some(bits),
        ..SetAttr::default()
    }
}

/// An ACL of these bits for owner, group and others, as attributes have it.
fn acl(bits: [u16; 3]) -> Vec<u8> {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, bits) in [0x01_u16, 0x04, 0x20].into_iter().zip(bits) {
        value.extend(tag.to_le_bytes());
        value.extend(bits.to_le_bytes());
        value.extend(u32::MAX.to_le_bytes());
    }
    value
}

#[test]
fn who_may_write_by_a_group_goes_on_behind_a_close() {
    served_with("again-group", without_override, |vfs, source| {
        let path = source.join("run");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o775)).unwrap();
        chown(&path, None, Some(Gid::from_raw(GROUP))).unwrap();
        let ino = vfs.lookup(&CALLER, ROOT, b"run").unwrap().ino;
        let file = vfs.open(&MEMBER, ino, libc::O_WRONLY).unwrap();
        append(vfs, &MEMBER, &file);
        vfs.flush(&file, 0).unwrap();
        assert_eq!(append(vfs, &MEMBER, &file), 10);
        // Neither does a later change of the rights end it.
        vfs.flush(&file, 0).unwrap();
        vfs.setattr(&CALLER, ino, None, &mode(0o555)).unwrap();
        assert_eq!(append(vfs, &MEMBER, &file), 10);
        vfs.release(&file, None);
    });
}

/// Once, a mode that takes the right to read away, and any ACL, left what was given up without a
/// way back.
#[test]
fn the_owner_goes_on_behind_any_change_of_its_own_rights() {
    served_with("again-owner", of_a_user, |vfs, _| {
        let flags = libc::O_CREAT | libc::O_RDWR;
        let made = vfs.create(&MEMBER, ROOT, b"run", 0o755, flags);
        let (attr, file) = made.unwrap();
        let chmod = |bits: u16| {
            let set = vfs.setattr(&MEMBER, attr.ino, None, &mode(bits));
            assert_eq!(set.unwrap().perm, bits);
        };
        let mut size = append(vfs, &MEMBER, &file);
        let mut goes_on = |change: &dyn Fn()| {
            chmod(0o755);
            vfs.flush(&file, 0).unwrap();
            change();
            size += append(vfs, &MEMBER, &file);
        };
        goes_on(&|| chmod(0o355));
        goes_on(&|| chmod(0o555));
        goes_on(&|| {
            let value = acl([0o5, 0o5, 0o5]);
            let set = vfs.setxattr(&MEMBER, attr.ino, ACL, &value, 0, false);
            set.unwrap();
        });
        assert_eq!(size, 40);
        vfs.release(&file, None);
    });
}

/// Once, a file that an ACL made a program stayed open for writing until RELEASE.
#[test]
fn an_acl_that_makes_a_program_of_a_file_gives_it_up() {
    served_with(
        "again-acl",
        || (),
        |vfs, source| {
            let flags = libc::O_CREAT | libc::O_RDWR;
            let made = vfs.create(&CALLER, ROOT, b"run", 0o644, flags);
            let (attr, file) = made.unwrap();
            let program = fs::read("/bin/true").unwrap();
            let written = vfs.write(&CALLER, &file, WriteAt::At(0), &program, false);
            assert_eq!(written.unwrap(), program.len());
            vfs.flush(&file, 0).unwrap();
            let value = acl([0o7, 0o5, 0o5]);
            vfs.setxattr(&CALLER, attr.ino, ACL, &value, 0, false)
                .unwrap();
            let end = Instant::now() + Duration::from_secs(5);
            // What another test starts at this moment may have the descriptor of this one too.
            let is_busy = || {
                let ran = Command::new(source.join("run")).status();
                ran.is_err_and(|error| error.raw_os_error() == Some(libc::ETXTBSY))
            };
            while is_busy() {
                assert!(Instant::now() < end, "it is open for writing");
            }
            vfs.release(&file, None);
        },
    );
}

/// Once, what may be appended to only from now on, and was given up, could not be written to.
#[test]
fn whoever_has_a_program_open_goes_on_when_it_may_only_grow() {
    served_with(
        "again-append",
        || (),
        |vfs, _| {
            let flags = libc::O_CREAT | libc::O_RDWR;
            let made = vfs.create(&CALLER, ROOT, b"run", 0o755, flags);
            let (attr, file) = made.unwrap();
            vfs.flush(&file, 0).unwrap();
            vfs.set_flags(&CALLER, attr.ino, hearth::flags::APPEND)
                .unwrap();
            let written = vfs.write(&CALLER, &file, WriteAt::End, b"#!/bin/sh\n", true);
            vfs.set_flags(&CALLER, attr.ino, 0).unwrap();
            assert_eq!(written.unwrap(), 10);
            vfs.release(&file, None);
        },
    );
}

/// The other side of giving it up: below, nothing says that somebody has the file open for writing.
#[test]
fn what_is_made_fixed_below_is_not_written_to() {
    let chattr = |how: &str, path: &Path| {
        let done = Command::new("chattr").arg(how).arg(path).status();
        assert!(done.unwrap().success());
    };
    let place = Place::new("again-fixed").unwrap();
    let source = place.directory("source").unwrap();
    let volume = Volume::builder().build().unwrap();
    let vfs = HostVfs::open(&source, HostOptions::default(), &volume).unwrap();
    let flags = libc::O_CREAT | libc::O_RDWR;
    let made = vfs.create(&CALLER, ROOT, b"run", 0o755, flags);
    let (_, file) = made.unwrap();
    vfs.flush(&file, 0).unwrap();
    for how in ["a", "i"] {
        chattr(&format!("+{how}"), &source.join("run"));
        let written = vfs.write(&CALLER, &file, WriteAt::End, b"#!/bin/sh\n", true);
        chattr(&format!("-{how}"), &source.join("run"));
        assert!(matches!(written, Err(VfsError::Errno(Errno::EPERM))));
    }
    assert_eq!(append(&vfs, &CALLER, &file), 10);
    vfs.release(&file, None);
}

#[test]
fn what_becomes_read_only_below_is_not_written_to() {
    let place = Place::new("again-read-only").unwrap();
    let source = place.directory("source").unwrap();
    let mount = |options: &str| {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(&source);
        assert!(mount.status().unwrap().success());
    };
    mount("mode=0755");
    let volume = Volume::builder().build().unwrap();
    let vfs = HostVfs::open(&source, HostOptions::default(), &volume).unwrap();
    let flags = libc::O_CREAT | libc::O_RDWR;
    let made = vfs.create(&CALLER, ROOT, b"run", 0o755, flags);
    let (_, file) = made.unwrap();
    vfs.flush(&file, 0).unwrap();
    mount("remount,ro");
    let refused = vfs.write(&CALLER, &file, WriteAt::End, b"#!/bin/sh\n", true);
    mount("remount,rw");
    let written = vfs.write(&CALLER, &file, WriteAt::End, b"#!/bin/sh\n", true);
    vfs.release(&file, None);
    let unmounted = Command::new("umount").arg("-l").arg(&source).status();
    assert!(unmounted.unwrap().success());
    assert!(matches!(refused, Err(VfsError::Errno(Errno::EROFS))));
    assert_eq!(written.unwrap(), 10);
}
