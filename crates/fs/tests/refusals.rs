//! What Linux refuses is refused, and what it allows is allowed: calls that are seldom made.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::{Credentials, Errno, Kind, LockKind, LockSpec, Process, Volume, flags};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

fn root() -> Process {
    Volume::memory().process(Credentials::root())
}

/// Linux asks for both rights then, and the descriptor serves neither.
#[test]
fn access_mode_three_asks_for_both_rights_and_gives_neither() {
    let p = root();
    let fd = p.open("/f", NEW, 0o644).unwrap();
    p.write(fd, b"text").unwrap();
    let user = p.fork();
    user.set_credentials(Credentials::user(1000, 1000));
    assert_eq!(user.open("/f", libc::O_ACCMODE, 0), Err(Errno::EACCES));
    p.chmod("/f", 0o666).unwrap();
    let fd = user.open("/f", libc::O_ACCMODE, 0).unwrap();
    assert_eq!(user.read(fd, &mut [0]), Err(Errno::EBADF));
    assert_eq!(user.pwrite(fd, b"X", 0), Err(Errno::EBADF));
    assert_eq!(user.ftruncate(fd, 0), Err(Errno::EINVAL));
    assert_eq!(user.fallocate(fd, 0, 0, 10), Err(Errno::EBADF));
    assert_eq!(user.flock(fd, libc::LOCK_SH), Err(Errno::EBADF));
    assert_eq!(user.fstat(fd).unwrap().size, 4);
}

#[test]
fn forty_symbolic_links_are_followed_and_not_forty_one() {
    let p = root();
    p.open("/f", NEW, 0o644).unwrap();
    p.symlink("f", "/l1").unwrap();
    for link in 2..=41 {
        let before = format!("l{}", link - 1);
        p.symlink(before, format!("/l{link}")).unwrap();
    }
    assert_eq!(p.stat("/l40").unwrap().ino, p.stat("/f").unwrap().ino);
    assert_eq!(p.stat("/l41"), Err(Errno::ELOOP));
}

#[test]
fn a_nul_is_in_no_target_and_in_no_name_of_an_attribute() {
    let p = root();
    p.open("/f", NEW, 0o644).unwrap();
    assert_eq!(p.symlink("a\0b", "/l"), Err(Errno::EINVAL));
    assert_eq!(p.lstat("/l"), Err(Errno::ENOENT));
    let name = b"user.a\0b";
    assert_eq!(p.setxattr("/f", name, b"v", 0), Err(Errno::EINVAL));
    assert_eq!(p.getxattr("/f", name), Err(Errno::EINVAL));
    assert_eq!(p.removexattr("/f", name), Err(Errno::EINVAL));
    assert!(p.listxattr("/f").unwrap().is_empty());
}

/// Each change copies all of them, and a file of any user could have had 600 MB.
#[test]
fn the_attributes_of_a_file_have_half_a_mebibyte_together() {
    let p = root();
    p.open("/f", NEW, 0o644).unwrap();
    let set =
        |n: u32, len: usize| p.setxattr("/f", format!("user.{n}").as_bytes(), &vec![7; len], 0);
    let each = 6 + 65_536 + 8;
    for n in 0..7 {
        assert_eq!(set(n, 65_536), Ok(()), "{n}");
    }
    let rest = (512 << 10) - 7 * each - (each - 65_536);
    assert_eq!(set(7, rest + 1), Err(Errno::ENOSPC));
    assert_eq!(p.getxattr("/f", b"user.7"), Err(Errno::ENODATA));
    assert_eq!(set(7, rest), Ok(()));
    assert_eq!(set(8, 0), Err(Errno::ENOSPC));
    assert_eq!(set(0, 65_536), Ok(()), "a change of one");
    p.removexattr("/f", b"user.3").unwrap();
    assert_eq!(set(8, 65_536), Ok(()));
    assert_eq!(p.listxattr("/f").unwrap().len(), 8 * 7);
}

#[test]
fn nothing_of_a_read_only_volume_may_be_written_to() {
    let p = root();
    p.mkdir("/d", 0o755).unwrap();
    p.open("/f", NEW, 0o644).unwrap();
    p.symlink("f", "/l").unwrap();
    p.mknod("/fifo", libc::S_IFIFO | 0o644, 0).unwrap();
    p.volume().set_read_only(true);
    let access = |path: &str, mask: i32| {
        p.faccessat(
            hearth::AT_FDCWD,
            path,
            mask as u32,
            libc::AT_SYMLINK_NOFOLLOW,
        )
    };
    for path in ["/d", "/f", "/l"] {
        assert_eq!(access(path, libc::W_OK), Err(Errno::EROFS), "{path}");
        assert_eq!(access(path, libc::R_OK), Ok(()), "{path}");
    }
    // What is written into a pipe goes into no volume.
    assert_eq!(access("/fifo", libc::W_OK), Ok(()));
}

/// In the order of Linux: what is to be taken away is not even looked for, what is to be made is.
#[test]
fn a_read_only_volume_says_so_before_names_that_go_and_after_names_that_come() {
    let p = root();
    p.mkdir("/d", 0o755).unwrap();
    p.mkdir("/d/e", 0o755).unwrap();
    p.open("/f", NEW, 0o644).unwrap();
    p.volume().set_read_only(true);
    let long = "/".to_owned() + &"x".repeat(300);
    for path in ["/none", "/none/", "/f", "/f/", "/d", "/d/e", &long] {
        assert_eq!(p.unlink(path), Err(Errno::EROFS), "{path}");
        assert_eq!(p.rmdir(path), Err(Errno::EROFS), "{path}");
        assert_eq!(p.rename(path, "/new"), Err(Errno::EROFS), "{path}");
        assert_eq!(p.rename("/f", path), Err(Errno::EROFS), "{path}");
    }
    for (path, unlink, rmdir, rename) in [
        ("/none/x", Errno::ENOENT, Errno::ENOENT, Errno::ENOENT),
        ("/f/x", Errno::ENOTDIR, Errno::ENOTDIR, Errno::ENOTDIR),
        ("/d/.", Errno::EISDIR, Errno::EINVAL, Errno::EBUSY),
        ("/d/..", Errno::EISDIR, Errno::ENOTEMPTY, Errno::EBUSY),
        ("/", Errno::EISDIR, Errno::EBUSY, Errno::EBUSY),
    ] {
        assert_eq!(p.unlink(path), Err(unlink), "{path}");
        assert_eq!(p.rmdir(path), Err(rmdir), "{path}");
        assert_eq!(p.rename(path, "/new"), Err(rename), "{path}");
        assert_eq!(p.rename("/f", path), Err(rename), "{path}");
    }
    for (path, file, directory) in [
        ("/none", Errno::EROFS, Errno::EROFS),
        ("/none/", Errno::ENOENT, Errno::EROFS),
        ("/d", Errno::EEXIST, Errno::EEXIST),
        ("/d/.", Errno::EEXIST, Errno::EEXIST),
        ("/none/x", Errno::ENOENT, Errno::ENOENT),
        (&long, Errno::ENAMETOOLONG, Errno::ENAMETOOLONG),
    ] {
        assert_eq!(p.mkdir(path, 0o755), Err(directory), "{path}");
        assert_eq!(p.mknod(path, libc::S_IFREG, 0), Err(file), "{path}");
        assert_eq!(p.symlink("f", path), Err(file), "{path}");
        assert_eq!(p.link("/f", path), Err(file), "{path}");
    }
    assert_eq!(p.link("/none", "/new"), Err(Errno::ENOENT));
    assert_eq!(p.link("/d", "/new"), Err(Errno::EROFS));
    let (vfs, caller) = (p.volume().vfs(), hearth::Caller::ROOT);
    let rename = || vfs.rename(&caller, hearth::ROOT, b"none", hearth::ROOT, b"new", 0);
    assert_eq!(
        vfs.unlink(&caller, hearth::ROOT, b"none"),
        Err(Errno::EROFS)
    );
    assert_eq!(vfs.rmdir(&caller, hearth::ROOT, b"none"), Err(Errno::EROFS));
    assert_eq!(rename(), Err(Errno::EROFS));
}

#[test]
fn statx_tells_of_birth_and_of_flags() {
    let p = root();
    let fd = p.open("/f", NEW, 0o644).unwrap();
    p.set_flags(fd, flags::APPEND | flags::NODUMP | flags::NOATIME)
        .unwrap();
    let all = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    let told = p.statx(hearth::AT_FDCWD, "/f", 0, all).unwrap();
    assert_eq!(told.mask, all);
    let bits = [
        libc::STATX_ATTR_APPEND,
        libc::STATX_ATTR_NODUMP,
        libc::STATX_ATTR_IMMUTABLE,
    ];
    let [append, nodump, immutable] = bits.map(|bit| bit as u64);
    assert_eq!(told.attributes, append | nodump);
    assert_eq!(told.attributes_mask, append | nodump | immutable);
    assert_eq!(told.attr, p.stat("/f").unwrap());
    assert!(told.attr.btime.sec > 0 && told.attr.btime <= told.attr.ctime);
    let empty = libc::AT_EMPTY_PATH | libc::AT_STATX_FORCE_SYNC;
    assert_eq!(p.statx(fd, "", empty, 0), Ok(told));
    p.symlink("f", "/l").unwrap();
    let link = p.statx(hearth::AT_FDCWD, "/l", libc::AT_SYMLINK_NOFOLLOW, all);
    assert_eq!(link.unwrap().attr.kind, Kind::Symlink);
    let refused = |flags, mask| p.statx(hearth::AT_FDCWD, "/f", flags, mask);
    let both = libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;
    assert_eq!(refused(both, all), Err(Errno::EINVAL));
    assert_eq!(refused(0, libc::STATX__RESERVED as u32), Err(Errno::EINVAL));
    assert_eq!(refused(libc::AT_SYMLINK_FOLLOW, all), Err(Errno::EINVAL));
}

#[test]
fn what_stands_for_something_in_a_kernel_cannot_be_opened() {
    let p = root();
    for (name, kind) in [
        ("/fifo", libc::S_IFIFO),
        ("/socket", libc::S_IFSOCK),
        ("/chars", libc::S_IFCHR),
        ("/blocks", libc::S_IFBLK),
    ] {
        p.mknod(name, kind | 0o666, 0x0103).unwrap();
        for flags in [
            libc::O_RDONLY,
            libc::O_RDWR | libc::O_NONBLOCK,
            libc::O_WRONLY,
        ] {
            assert_eq!(p.open(name, flags, 0), Err(Errno::ENXIO), "{name}");
        }
        let fd = p.open(name, libc::O_PATH, 0).unwrap();
        assert_eq!(p.fstat(fd).unwrap().mode() & libc::S_IFMT, kind, "{name}");
    }
}

#[test]
fn what_is_preallocated_behind_the_end_moves_no_further_than_a_file_goes() {
    const PAGE: u64 = 4096;
    let p = root();
    let fd = p.open("/f", NEW, 0o644).unwrap();
    p.write(fd, b"x").unwrap();
    let last = (1 << 63) - PAGE;
    p.fallocate(fd, libc::FALLOC_FL_KEEP_SIZE, last - PAGE, PAGE)
        .unwrap();
    let blocks = p.fstat(fd).unwrap().blocks;
    let insert = |pages| p.fallocate(fd, libc::FALLOC_FL_INSERT_RANGE, 0, pages * PAGE);
    assert_eq!(insert(2), Err(Errno::EINVAL));
    assert_eq!(p.fstat(fd).unwrap().size, 1);
    assert_eq!(insert(1), Ok(()));
    assert_eq!(insert(1), Err(Errno::EINVAL));
    let attr = p.fstat(fd).unwrap();
    assert_eq!((attr.size, attr.blocks), (PAGE + 1, blocks));
    p.ftruncate(fd, PAGE + 1).unwrap();
    assert!(p.volume().quota().check().unwrap().is_clean());
}

#[test]
fn only_who_asks_for_attributes_may_ask_for_no_automount() {
    let (p, here, no) = (root(), hearth::AT_FDCWD, libc::AT_NO_AUTOMOUNT);
    p.open("/f", NEW, 0o644).unwrap();
    p.setxattr("/f", b"user.a", b"v", 0).unwrap();
    assert_eq!(p.statat(here, "/f", no), p.stat("/f"));
    assert!(p.statx(here, "/f", no, 0).is_ok());
    let now = Some(hearth::SetTime::Now);
    assert_eq!(p.faccessat(here, "/f", 0, no), Err(Errno::EINVAL));
    assert_eq!(p.fchmodat(here, "/f", 0o600, no), Err(Errno::EINVAL));
    assert_eq!(p.fchownat(here, "/f", None, None, no), Err(Errno::EINVAL));
    assert_eq!(p.utimensat(here, "/f", now, now, no), Err(Errno::EINVAL));
    assert_eq!(p.getxattrat(here, "/f", b"user.a", no), Err(Errno::EINVAL));
}

/// Real and effective ids are the same.
#[test]
fn access_is_answered_for_the_ids_that_an_open_is_answered_for() {
    let p = root();
    p.open("/f", NEW, 0o640).unwrap();
    let access = |flags| p.faccessat(hearth::AT_FDCWD, "/f", libc::R_OK as u32, flags);
    for (ids, answer) in [
        (Credentials::root(), Ok(())),
        (Credentials::user(1000, 0), Ok(())),
        (Credentials::user(1000, 1000), Err(Errno::EACCES)),
    ] {
        p.set_credentials(ids);
        assert_eq!((access(0), access(libc::AT_EACCESS)), (answer, answer));
        assert_eq!(p.open("/f", libc::O_RDONLY, 0).map(drop), answer);
    }
}

#[test]
fn a_value_of_an_attribute_has_64_kib_and_no_more() {
    let p = root();
    p.open("/f", NEW, 0o644).unwrap();
    let value = vec![7; 65_537];
    p.setxattr("/f", b"user.a", &value[1..], 0).unwrap();
    assert_eq!(p.getxattr("/f", b"user.a").unwrap(), value[1..]);
    assert_eq!(p.setxattr("/f", b"user.b", &value, 0), Err(Errno::E2BIG));
    assert_eq!(p.listxattr("/f").unwrap(), b"user.a\0");
}

/// A listing has no end to be counted from, and neither data nor holes.
#[test]
fn a_directory_is_sought_in_from_its_beginning_and_from_where_it_is() {
    let p = root();
    p.mkdir("/d", 0o755).unwrap();
    let fd = p.open("/d", libc::O_DIRECTORY, 0).unwrap();
    p.getdents(fd, &mut |_| true).unwrap();
    let end = p.lseek(fd, 0, libc::SEEK_CUR).unwrap();
    assert!(end > 0);
    for whence in [libc::SEEK_END, libc::SEEK_DATA, libc::SEEK_HOLE] {
        assert_eq!(p.lseek(fd, 0, whence), Err(Errno::EINVAL));
        assert_eq!(p.lseek(fd, 0, libc::SEEK_CUR), Ok(end), "it stays there");
    }
    assert_eq!(p.lseek(fd, 0, libc::SEEK_SET), Ok(0));
}

#[test]
fn nothing_is_asked_to_be_in_the_way_of_an_unlock() {
    let p = root();
    let fd = p.open("/f", NEW, 0o644).unwrap();
    let spec = |kind| LockSpec {
        kind,
        whence: libc::SEEK_SET,
        start: 0,
        len: 0,
    };
    assert_eq!(p.get_lock(fd, &spec(LockKind::Write)), Ok(None));
    let unlock = p.get_lock(fd, &spec(LockKind::Unlock));
    assert_eq!(unlock, Err(Errno::EINVAL));
}

/// `fgetxattr(2)` refuses it as well: an `O_PATH` descriptor is good for what is below it.
#[test]
fn a_path_descriptor_tells_no_attribute_of_itself() {
    let (p, empty) = (root(), libc::AT_EMPTY_PATH);
    let file = p.open("/f", NEW, 0o644).unwrap();
    p.setxattr("/f", b"user.a", b"v", 0).unwrap();
    p.setxattr("/", b"user.a", b"root", 0).unwrap();
    let get = |fd, path| p.getxattrat(fd, path, b"user.a", empty);
    assert_eq!(get(file, ""), Ok(b"v".to_vec()));
    assert_eq!(get(hearth::AT_FDCWD, ""), Ok(b"root".to_vec()));
    let path = p.open("/", libc::O_PATH, 0).unwrap();
    assert_eq!(get(path, ""), Err(Errno::EBADF));
    assert_eq!(get(path, "f"), Ok(b"v".to_vec()));
}

#[test]
fn a_vector_has_at_most_1024_parts() {
    let p = root();
    let fd = p.open("/f", NEW, 0o644).unwrap();
    let mut bytes = [7; 1025];
    let parts: Vec<IoSlice<'_>> = bytes.chunks(1).map(IoSlice::new).collect();
    assert_eq!(p.pwritev(fd, &parts[1..], 0), Ok(1024));
    assert_eq!(p.pwritev(fd, &parts, 0), Err(Errno::EINVAL));
    assert_eq!(p.writev(fd, &parts), Err(Errno::EINVAL));
    assert_eq!(p.writev(99, &parts), Err(Errno::EBADF));
    let mut parts: Vec<IoSliceMut<'_>> = bytes.chunks_mut(1).map(IoSliceMut::new).collect();
    assert_eq!(p.preadv(fd, &mut parts[1..], 0), Ok(1024));
    assert_eq!(p.preadv(fd, &mut parts, 0), Err(Errno::EINVAL));
    assert_eq!(p.readv(fd, &mut parts), Err(Errno::EINVAL));
    assert_eq!(p.readv(99, &mut parts), Err(Errno::EBADF));
    assert_eq!(p.fstat(fd).unwrap().size, 1024);
}

/// Once, a page that moved to where the search had been was not found at all.
#[test]
fn a_search_for_data_beside_collapse_and_insert_finds_it_before_or_after() {
    const PAGE: u64 = 4096;
    const BY: u64 = 4_000 * PAGE;
    const AT: u64 = 50 * PAGE;
    let p = root();
    let fd = p.open("/f", NEW, 0o600).unwrap();
    // All pages are there, so that the search looks at each, and one has data.
    p.fallocate(fd, 0, 0, 2 * AT).unwrap();
    p.pwrite(fd, b"x", AT).unwrap();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..500 {
                p.fallocate(fd, libc::FALLOC_FL_INSERT_RANGE, 0, BY)
                    .unwrap();
                p.fallocate(fd, 0, 0, BY).unwrap();
                p.fallocate(fd, libc::FALLOC_FL_COLLAPSE_RANGE, 0, BY)
                    .unwrap();
            }
            ended.store(true, Relaxed);
        });
        let other = p.volume().process(Credentials::root());
        let fd = other.open("/f", libc::O_RDWR, 0).unwrap();
        while !ended.load(Relaxed) {
            let found = other.lseek(fd, 0, libc::SEEK_DATA);
            let places = [Ok(AT), Ok(AT + BY)];
            assert!(places.contains(&found), "{found:?}");
        }
    });
}
