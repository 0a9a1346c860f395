//! Where writes go on a real mount, on both transports: to the end or not, as the flags of the
//! moment say; what may only grow; and what is kept when the volume becomes read-only.

#![allow(clippy::unwrap_used)]

mod harness;

use hearth_testing::threads::SetOnDrop;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// `FS_APPEND_FL`.
const APPEND: libc::c_long = 0x20;

fn errno(result: io::Result<impl Sized>) -> i32 {
    result.map(|_| ()).unwrap_err().raw_os_error().unwrap()
}

fn check(result: libc::c_int) {
    assert!(result >= 0, "{}", io::Error::last_os_error());
}

/// `fcntl(F_SETFL)`.
fn set_status(file: &File, flags: i32) {
    // SAFETY: a descriptor and numbers.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) });
}

/// `chattr`, all flags at once.
fn set_flags(path: &Path, flags: libc::c_long) {
    let file = File::open(path).unwrap();
    // SAFETY: the ioctl reads one number, which lives through the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &flags) });
}

/// Opened for appending and for reading.
fn log(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    options.open(path).unwrap()
}

/// `O_APPEND` taken off after the open is off, and put on is on.
fn follows_the_flags_of_the_moment(mount: &Path) {
    let (path, other) = (mount.join("f"), mount.join("other"));
    let mut file = log(&path);
    file.write_all(b"abcdef").unwrap();
    set_status(&file, 0);
    file.write_all_at(b"X", 1).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"aXcdef");
    fs::write(&other, b"12").unwrap();
    let (from, to) = (File::open(&other).unwrap(), file.as_raw_fd());
    let mut at = 3;
    // SAFETY: two descriptors, and an offset that lives through the call.
    let copied = unsafe {
        let none = std::ptr::null_mut();
        libc::copy_file_range(from.as_raw_fd(), none, to, &mut at, 2, 0)
    };
    assert_eq!(copied, 2, "{}", io::Error::last_os_error());
    assert_eq!(fs::read(&path).unwrap(), b"aXc12f");
    set_status(&file, libc::O_APPEND);
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(b"end").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"aXc12fend");
}

/// Whatever is done about `O_APPEND`, an append-only file keeps what it has.
fn only_grows(mounted: &mut harness::Mounted) {
    let path = mounted.path().join("log");
    fs::write(&path, b"one ").unwrap();
    set_flags(&path, APPEND);
    assert_eq!(
        errno(OpenOptions::new().write(true).open(&path)),
        libc::EPERM
    );
    let mut file = log(&path);
    file.write_all(b"two ").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 8);
    set_status(&file, 0);
    assert_eq!(errno(file.write_all_at(b"X", 1)), libc::EPERM);
    assert_eq!(errno(file.set_len(3)), libc::EPERM);
    assert_eq!(fs::read(&path).unwrap(), b"one two ");
    file.write_all_at(b"three ", 8).unwrap();
    set_status(&file, libc::O_APPEND);
    mounted.command("append /log four");
    file.write_all(b"five").unwrap();
    assert_eq!(mounted.command("read /log"), "one two three fourfive");
    drop(file);
    set_flags(&path, 0);
    fs::write(&path, b"again").unwrap();
}

/// Linux refuses both, the kernel of a mount knows nothing of it.
fn goes_on_as_it_was_opened(mount: &Path) {
    let path = mount.join("log");
    fs::write(&path, b"one two ").unwrap();
    let file = log(&path);
    set_flags(&path, APPEND);
    set_status(&file, 0);
    file.write_all_at(b"X", 1).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"oXe two ");
    // SAFETY: a mapping of the file's own page, stored to within its length and taken away.
    unsafe {
        let (none, prot) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
        let page = libc::mmap(none, 8, prot, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(page, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        page.cast::<u8>().write(b'Y');
        check(libc::munmap(page, 8));
    }
    file.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"YXe two ");
    set_flags(&path, 0);
}

/// A file with a capability, for which `change` is done; whether it has it still.
fn keeps_capability(path: &Path, change: impl FnOnce(&Path)) -> bool {
    const NAME: &std::ffi::CStr = c"security.capability";
    // cap_net_raw=ep, version 2.
    let value: [u8; 20] = [
        1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let place = CString::new(path.as_os_str().as_bytes()).unwrap();
    fs::write(path, b"program").unwrap();
    // SAFETY: two C strings, and bytes that live through the call.
    check(unsafe {
        let (name, bytes) = (NAME.as_ptr(), value.as_ptr().cast());
        libc::setxattr(place.as_ptr(), name, bytes, value.len(), 0)
    });
    let size = || {
        // SAFETY: two C strings; no bytes are asked for.
        unsafe { libc::getxattr(place.as_ptr(), NAME.as_ptr(), std::ptr::null_mut(), 0) }
    };
    assert_eq!(size(), 20, "{}", io::Error::last_os_error());
    change(path);
    size() == 20
}

fn loses_capabilities(mount: &Path) {
    let path = mount.join("program");
    let write = || OpenOptions::new().write(true).open(&path).unwrap();
    let unwritten = |path: &Path| {
        File::open(path)
            .unwrap()
            .read_to_end(&mut Vec::new())
            .unwrap();
        fs::rename(path, mount.join("renamed")).unwrap();
        fs::rename(mount.join("renamed"), path).unwrap();
    };
    assert!(keeps_capability(&path, unwritten));
    assert!(!keeps_capability(&path, |_| write()
        .write_all_at(b"P", 0)
        .unwrap()));
    assert!(!keeps_capability(&path, |_| write().set_len(3).unwrap()));
    assert!(!keeps_capability(&path, |_| drop(
        File::create(&path).unwrap()
    )));
    assert!(!keeps_capability(&path, |_| {
        std::os::unix::fs::chown(&path, Some(1000), None).unwrap();
    }));
}

/// Does something as a thread that is not root.
fn as_stranger<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let become_stranger = || {
        // SAFETY: numbers. The system call is for the calling thread alone, which ends soon.
        check(unsafe { libc::syscall(libc::SYS_setresuid, 1000, 1000, 1000) } as libc::c_int);
    };
    thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            become_stranger();
            work()
        });
        stranger.join().unwrap()
    })
}

/// The mode alone, with which the kernel asks for no more than it has not got.
fn mode_alone(path: &Path) -> u16 {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a C string, and a record of numbers that the call fills in.
    unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let (path, to) = (path.as_ptr(), &raw mut found);
        check(libc::statx(libc::AT_FDCWD, path, 0, libc::STATX_MODE, to));
        found.stx_mode & 0o7777
    }
}

/// Whom a program runs for that is a copy of `id`.
fn runs_for(path: &Path) -> String {
    loop {
        match Command::new(path).arg("-u").output() {
            Ok(output) => return String::from_utf8(output.stdout).unwrap().trim().to_owned(),
            // A process that another test is about to start has our descriptors for a moment.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::yield_now(),
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
}

/// Something that is done to the contents of a file.
type Change<'a> = &'a (dyn Fn(&File) + Sync);

/// A program of another's, setuid, setgid and open to all: whoever is not root changes it somehow,
/// and it is a usual one for the kernel as well, at once.
fn loses_setuid(mount: &Path, is_opened: bool) {
    let (path, other) = (mount.join("program"), mount.join("other"));
    fs::write(&other, "something").unwrap();
    let other = File::open(&other).unwrap();
    let make = || {
        let _ = fs::remove_file(&path);
        fs::copy("/usr/bin/id", &path).unwrap();
        std::os::unix::fs::chown(&path, Some(1234), Some(1234)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
        assert_eq!(mode_alone(&path), 0o6777);
    };
    let size = fs::metadata("/usr/bin/id").unwrap().len() as libc::off_t;
    let fallocate = |file: &File, mode, len| {
        // SAFETY: a descriptor and numbers.
        check(unsafe { libc::fallocate(file.as_raw_fd(), mode, 2 * size, len) });
    };
    let copy = |file: &File| {
        let (from, to, mut at, mut begin) = (other.as_raw_fd(), file.as_raw_fd(), 2 * size, 0);
        // SAFETY: descriptors, and two numbers that live through the call.
        let copied = unsafe { libc::copy_file_range(from, &mut begin, to, &mut at, 9, 0) };
        assert_eq!(copied, 9, "{}", io::Error::last_os_error());
    };
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let changes: [(&str, Change<'_>); 6] = [
        ("write", &|file| {
            file.write_all_at(b"!", 2 * size as u64).unwrap()
        }),
        ("allocation", &|file| fallocate(file, 0, 10)),
        ("long allocation", &|file| fallocate(file, 0, 3 << 20)),
        ("hole", &|file| fallocate(file, punch, 10)),
        ("copy", &|file| copy(file)),
        ("cut", &|file| file.set_len(2 * size as u64).unwrap()),
    ];
    for (what, change) in changes {
        // To look at it makes the kernel ask for it: so one that nobody has looked at is run too.
        for looks in [true, false] {
            make();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            as_stranger(|| change(&file));
            assert!(!looks || mode_alone(&path) == 0o777, "{what}");
            drop(file);
            assert_eq!(runs_for(&path), "0", "{what}");
        }
        make();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        change(&file);
        assert_eq!(mode_alone(&path), 0o6777, "{what} by root");
        drop(file);
        assert_eq!(runs_for(&path), "1234", "{what} by root");
    }
    if is_opened {
        make();
        let cut = || OpenOptions::new().write(true).truncate(true).open(&path);
        as_stranger(|| cut().map(drop)).unwrap();
        assert_eq!(mode_alone(&path), 0o777, "O_TRUNC");
    }
}

/// Runs `work` as somebody who is neither the owner nor of the group of what root has made.
fn outside_of_the_group<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            // SAFETY: numbers. The system calls are for the calling thread alone, which ends soon.
            unsafe {
                let no_groups = std::ptr::null::<libc::gid_t>();
                check(libc::syscall(libc::SYS_setgroups, 0, no_groups) as libc::c_int);
                check(libc::syscall(libc::SYS_setresgid, 1000, 1000, 1000) as libc::c_int);
                check(libc::syscall(libc::SYS_setresuid, 1000, 1000, 1000) as libc::c_int);
            }
            work()
        });
        stranger.join().unwrap()
    })
}

/// The modes of a file of root's, setgid without group execute and open to all, after changes by a
/// stranger and by a member of its group.
fn setgid_alone(below: &Path) -> Vec<String> {
    fs::set_permissions(below, Permissions::from_mode(0o755)).unwrap();
    let path = below.join("marked");
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let fallocate = |file: &File, mode| {
        // SAFETY: a descriptor and numbers.
        check(unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, 8192) });
    };
    let changes: [(&str, Change<'_>); 5] = [
        ("write", &|file| file.write_all_at(b"!", 0).unwrap()),
        ("allocation", &|file| fallocate(file, 0)),
        ("hole", &|file| fallocate(file, punch)),
        ("zeros", &|file| fallocate(file, libc::FALLOC_FL_ZERO_RANGE)),
        ("cut", &|file| file.set_len(3).unwrap()),
    ];
    let mut seen = Vec::new();
    for (what, change) in changes {
        for is_member in [false, true] {
            let _ = fs::remove_file(&path);
            fs::write(&path, "contents").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o2666)).unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            match is_member {
                true => as_stranger(|| change(&file)),
                false => outside_of_the_group(|| change(&file)),
            }
            drop(file);
            let mode = mode_alone(&path);
            seen.push(format!("{what} by a member {is_member}: {mode:o}"));
        }
    }
    fs::remove_file(&path).unwrap();
    seen
}

/// As on the filesystem of the temporary directory.
fn loses_setgid_alone(mount: &Path) {
    let elsewhere = harness::fresh_directory();
    let expected = setgid_alone(&elsewhere);
    fs::remove_dir(elsewhere).unwrap();
    assert!(expected.contains(&"hole by a member false: 666".to_owned()));
    assert_eq!(setgid_alone(mount), expected);
}

/// A stranger opens a name, or makes it, while the library makes it for root and removes it again:
/// never is he let into root's file.
fn makes_or_is_refused(mounted: &mut harness::Mounted) {
    let directory = mounted.path().join("d");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    let (path, done) = (directory.join("f"), AtomicBool::new(false));
    let (mut made, mut refused) = (0, 0);
    thread::scope(|scope| {
        let end = SetOnDrop(&done);
        let stranger = scope.spawn(|| {
            as_stranger(|| {
                let (mut made, mut refused) = (0, 0);
                // Relaxed: a wish.
                while !done.load(Ordering::Relaxed) {
                    let options = OpenOptions::new()
                        .read(true)
                        .write(true)
                        .create(true)
                        .clone();
                    match options.open(&path) {
                        Ok(file) => {
                            assert_eq!(file.metadata().unwrap().uid(), 1000);
                            made += 1;
                        }
                        Err(error) if error.raw_os_error() == Some(libc::EACCES) => refused += 1,
                        Err(error) if error.raw_os_error() == Some(libc::ESTALE) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                (made, refused)
            })
        });
        for _ in 0..2000 {
            mounted.command("create /roots");
            mounted.command("rename /roots /d/f");
            mounted.command("unlink /d/f");
        }
        drop(end);
        (made, refused) = stranger.join().unwrap();
    });
    assert!(made > 0 && refused > 0, "{made} made, {refused} refused");
}

on_both_transports! {
    fn a_write_follows_the_flags_of_the_moment(mounted, "writeback") {
        follows_the_flags_of_the_moment(mounted.path());
    }

    fn a_write_at_once_follows_the_flags_of_the_moment(mounted, "no_writeback") {
        follows_the_flags_of_the_moment(mounted.path());
    }

    fn a_direct_write_follows_the_flags_of_the_moment(mounted, "direct_io") {
        follows_the_flags_of_the_moment(mounted.path());
    }

    fn a_charged_write_follows_the_flags_of_the_moment(mounted, "quota") {
        follows_the_flags_of_the_moment(mounted.path());
    }

    fn a_write_that_nobody_opened_for_follows_the_flags(mounted, "no_open,no_writeback") {
        follows_the_flags_of_the_moment(mounted.path());
    }

    fn an_append_only_file_only_grows(mounted, "writeback") {
        only_grows(&mut mounted);
    }

    fn an_append_only_file_only_grows_by_writes_at_once(mounted, "no_writeback") {
        only_grows(&mut mounted);
    }

    fn what_was_opened_before_a_file_only_grew_is_written_to_anywhere(mounted, "writeback") {
        goes_on_as_it_was_opened(mounted.path());
    }

    fn what_was_acknowledged_before_the_volume_became_read_only_is_kept(mounted, "writeback") {
        let path = mounted.path().join("f");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"acknowledged").unwrap();
        fs::write(mounted.path().join(".hearth/sys/fs/read-only"), "1").unwrap();
        file.sync_all().unwrap();
        drop(file);
        assert_eq!(mounted.command("read /f"), "acknowledged");
        assert_eq!(errno(OpenOptions::new().append(true).open(&path)), libc::EROFS);
        let touched = File::open(&path).unwrap().set_modified(std::time::UNIX_EPOCH);
        assert_eq!(errno(touched), libc::EROFS);
    }

    // Once, an fsync waited behind what others had written, as much as the memory allowed.
    fn the_kernel_keeps_little_of_what_is_unwritten(mounted, "writeback") {
        let device = fs::metadata(mounted.path()).unwrap().dev();
        let minor = rustix::fs::minor(device);
        // Linux 6.2 has it.
        let bound = fs::read_to_string(format!("/sys/class/bdi/0:{minor}/max_bytes")).unwrap();
        let bound: u64 = bound.trim().parse().unwrap();
        // The kernel rounds it to a part of what may be dirty, which changes all the time.
        assert!((4 << 20..=12 << 20).contains(&bound), "{bound}");
    }

    fn what_changes_a_program_takes_its_capabilities(mounted, "writeback") {
        loses_capabilities(mounted.path());
    }

    fn what_changes_a_program_at_once_takes_its_capabilities(mounted, "no_writeback") {
        loses_capabilities(mounted.path());
    }

    fn what_changes_a_program_directly_takes_its_capabilities(mounted, "direct_io") {
        loses_capabilities(mounted.path());
    }

    // Once, the kernel ran it with the rights of its owner until it asked for all attributes.
    fn a_strangers_change_takes_setuid_for_the_kernel_too(mounted, "writeback,allow_other") {
        loses_setuid(mounted.path(), true);
    }

    fn a_strangers_direct_change_takes_setuid_too(mounted, "quota,allow_other") {
        loses_setuid(mounted.path(), true);
    }

    fn a_strangers_change_without_an_open_takes_setuid_too(mounted, "no_open,no_writeback") {
        loses_setuid(mounted.path(), false);
    }

    // Once, a stranger's allocations and holes left it.
    fn setgid_without_group_execute_goes_with_a_strangers_change(mounted, "allow_other") {
        loses_setgid_alone(mounted.path());
    }

    fn setgid_without_group_execute_goes_at_once(mounted, "no_writeback,allow_other") {
        loses_setgid_alone(mounted.path());
    }

    // Once, the kernel was given what the library had made meanwhile, for which it checks nothing.
    fn what_the_library_made_meanwhile_is_not_opened_unchecked(mounted, "allow_other") {
        makes_or_is_refused(&mut mounted);
    }
}
