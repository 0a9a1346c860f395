//! Scripts that once told two systems apart, each under the fact that it holds: the kernel and
//! the library both run them. Process 1 is root, process 2 user 1000 in group 2000.

use libc::{AT_EMPTY_PATH, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH};
use libc::{O_RDONLY, O_RDWR, O_WRONLY};

use crate::bytes::bytes;
use crate::op::{CWD, Fd, Fill, LockKind, LockSpec, Op, SetTime, Target};

/// A script.
pub type Script = Vec<(usize, Op)>;

/// All of them, with their facts.
pub fn all() -> Vec<(&'static str, Script)> {
    [walks(), opens(), data(), modes(), names(), xattrs(), processes()].concat()
}

const TMPFILE: i32 = libc::O_TMPFILE | O_RDWR;

fn open(path: &str, flags: i32, mode: u32) -> Op {
    Op::Open { dirfd: CWD, path: bytes(path), flags, mode }
}

fn file(path: &str) -> Op {
    open(path, O_CREAT | O_RDWR, 0o666)
}

fn dir(path: &str, mode: u32) -> Op {
    Op::MakeDir { dirfd: CWD, path: bytes(path), mode }
}

fn chmod(path: &str, mode: u32) -> Op {
    Op::Chmod { dirfd: CWD, path: bytes(path), mode, flags: 0 }
}

fn stat(path: &str) -> Op {
    Op::Stat { dirfd: CWD, path: bytes(path), flags: 0 }
}

fn symlink(target: &str, path: &str) -> Op {
    Op::Symlink { target: bytes(target), dirfd: CWD, path: bytes(path) }
}

fn rename(old: &str, new: &str, flags: u32) -> Op {
    Op::Rename { old_dirfd: CWD, old: bytes(old), new_dirfd: CWD, new: bytes(new), flags }
}

fn unlink(path: &str, flags: i32) -> Op {
    Op::Unlink { dirfd: CWD, path: bytes(path), flags }
}

fn times(path: &str, times: [SetTime; 2], flags: i32) -> Op {
    Op::SetTimes { dirfd: CWD, path: bytes(path), times, flags }
}

fn copy(from: Fd, from_at: i64, to: Fd, to_at: i64, len: usize) -> Op {
    Op::Copy { from, from_at: Some(from_at), to, to_at: Some(to_at), len, flags: 0 }
}

fn acl(path: &str, entries: &[(u16, u16, u32)]) -> Op {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    let (target, name) = (Target::Path(bytes(path)), bytes("system.posix_acl_access"));
    Op::SetXattr { target, name, value: bytes(value), flags: 0 }
}

const NO_ID: u32 = u32::MAX;
const OPEN_ROOT: u32 = 0o777;

fn walks() -> Vec<(&'static str, Script)> {
    let long = "n".repeat(256);
    let removed = |last| vec![(1, dir("d", 0o777)), (1, Op::ChangeDir { path: bytes("d") }),
        (1, unlink("/d", libc::AT_REMOVEDIR)), (1, last)];
    let bad_fd = |path: &str| Op::Stat { dirfd: 7, path: bytes(path), flags: 0 };
    vec![
        ("a path that is none is told before a descriptor that is none",
            vec![(1, bad_fd("")), (1, bad_fd(&"./".repeat(2048))), (1, bad_fd("a"))]),
        ("AT_SYMLINK_FOLLOW is a flag of linkat alone",
            vec![(1, Op::Stat { dirfd: CWD, path: bytes("/"), flags: 0x400 }),
                (1, Op::Chmod { dirfd: CWD, path: bytes("/"), mode: 0o755, flags: 0x400 })]),
        ("in a removed directory no name is too long", removed(stat(&long))),
        ("in a removed directory no name is too long to be made", removed(dir(&long, 0o777))),
        ("a removed directory has no path and no entries",
            [removed(Op::GetCwd), vec![(1, open(".", O_RDONLY, 0)),
                (1, Op::ListFd { fd: 0, split: None })]].concat()),
        ("a slash behind a name makes all symlinks behind it be followed",
            vec![(1, symlink("a", "a")), (1, open("a/", O_NOFOLLOW, 0))]),
        ("a directory outside the root has no path",
            vec![(1, dir("d", 0o777)), (1, Op::ChangeRoot { path: bytes("d") }),
                (1, Op::GetCwd)]),
        ("an empty path with AT_EMPTY_PATH is the current directory, which cannot be linked",
            vec![(1, Op::Link { old_dirfd: CWD, old: bytes(""), new_dirfd: CWD, new: bytes("b"),
                flags: AT_EMPTY_PATH })]),
    ]
}

fn opens() -> Vec<(&'static str, Script)> {
    vec![
        ("O_EXCL on dots is EEXIST, O_CREAT alone EISDIR",
            vec![(1, open("..", O_CREAT | O_EXCL, 0)), (1, open("..", O_CREAT, 0))]),
        ("a pipe that may not be read says so",
            vec![(1, chmod("/", OPEN_ROOT)),
                (1, Op::MakeNode { dirfd: CWD, path: bytes("p"), mode: libc::S_IFIFO | 0o600,
                    rdev: 0 }),
                (2, open("p", O_RDONLY, 0))]),
        ("O_PATH opens what may not be read",
            vec![(1, open("f", O_CREAT, 0)), (2, open("f", O_PATH, 0)),
                (2, Op::StatFd { fd: 0 }), (2, Op::Read { fd: 0, len: 1 })]),
        ("listing a file is ENOTDIR even for who may not read it",
            vec![(1, open("f", O_CREAT, 0)), (2, Op::List { path: bytes("f") })]),
        ("O_NOATIME holds for listing",
            vec![(1, times("/", [SetTime::At(5, 5), SetTime::Omit], 0)),
                (1, open("/", O_DIRECTORY | libc::O_NOATIME, 0)),
                (1, Op::ListFd { fd: 0, split: Some(1) }), (1, stat("/"))]),
    ]
}

fn data() -> Vec<(&'static str, Script)> {
    let fill = |len| Fill { seed: 3, len };
    let allocate = |mode, offset, len| Op::Allocate { fd: 0, mode, offset, len };
    vec![
        ("a transfer ends where offsets end",
            vec![(1, file("f")), (1, Op::ReadAt { fd: 0, len: 12, offset: i64::MAX - 1 }),
                (1, Op::WriteAt { fd: 0, data: fill(12), offset: i64::MAX - 1 })]),
        ("reading into no room succeeds on a directory",
            vec![(1, open("/", O_RDONLY, 0)), (1, Op::ReadV { fd: 0, lens: vec![] }),
                (1, Op::ReadV { fd: 0, lens: vec![1] })]),
        ("seeking too far is EINVAL",
            vec![(1, file("f")), (1, Op::Write { fd: 0, data: fill(9) }),
                (1, Op::Seek { fd: 0, offset: i64::MAX - 1, whence: libc::SEEK_END })]),
        ("fallocate looks at the range, then the mode, then the descriptor",
            vec![(1, open("f", O_CREAT, 0o666)), (1, allocate(2, 5, 0)), (1, allocate(2, 5, 1)),
                (1, allocate(0, 5, 1)), (1, allocate(0x40, 5, 1)), (1, allocate(0, -1, 1))]),
        ("copying looks at kinds, then at modes",
            vec![(1, open("/", O_RDONLY, 0)), (1, file("f")), (1, open("f", O_WRONLY, 0)),
                (1, copy(0, 0, 1, 0, 1)), (1, copy(2, 0, 1, 0, 1)), (1, copy(1, 0, 0, 0, 1))]),
        ("copying checks offsets even where there is nothing to copy",
            vec![(1, file("f")), (1, file("g")), (1, copy(0, -1, 1, 0, 2)),
                (1, copy(0, -1, 1, 0, 0)), (1, copy(0, 0, 1, i64::MAX, 0)),
                (1, copy(0, 0, 0, i64::MIN, 0))]),
        ("a file that is copied into itself does not grow under the copy",
            vec![(1, file("f")), (1, Op::Write { fd: 0, data: fill(4095) }),
                (1, copy(0, 0, 0, 4095, 9000)), (1, stat("f"))]),
        ("an empty file can be copied onto itself",
            vec![(1, file("f")), (1, copy(0, 0, 0, 0, 3))]),
        ("appending ignores the offset",
            vec![(1, open("f", O_CREAT | O_RDWR | O_APPEND, 0o666)),
                (1, Op::Write { fd: 0, data: fill(5) }),
                (1, Op::WriteAt { fd: 0, data: fill(3), offset: 0 }),
                (1, Op::Read { fd: 0, len: 9 })]),
    ]
}

fn modes() -> Vec<(&'static str, Script)> {
    vec![
        ("who is not of the group keeps no setgid of what he writes",
            vec![(1, file("f")), (1, chmod("f", 0o2666)), (2, open("f", O_WRONLY, 0)),
                (2, Op::Write { fd: 0, data: Fill { seed: 1, len: 1 } }), (1, stat("f"))]),
        ("setgid is taken before the umask hides the execute bit that decides",
            vec![(1, chmod("/", 0o2777)), (2, Op::Umask { mask: 0o077 }),
                (2, open("f", O_CREAT, 0o6011)), (1, stat("f"))]),
        ("setgid goes from what is no file as well",
            vec![(1, chmod("/", 0o2777)),
                (2, Op::MakeNode { dirfd: CWD, path: bytes("s"), mode: libc::S_IFSOCK | 0o2755,
                    rdev: 0 }), (1, stat("s"))]),
        ("a chown that names nobody still needs the owner if it takes setuid away",
            vec![(1, open("f", O_CREAT, 0o4755)),
                (2, Op::Chown { dirfd: CWD, path: bytes("f"), uid: None, gid: None, flags: 0 }),
                (1, Op::Chown { dirfd: CWD, path: bytes("f"), uid: None, gid: None, flags: 0 }),
                (1, stat("f"))]),
        ("only a character device 0 is a whiteout",
            vec![(1, chmod("/", OPEN_ROOT)),
                (2, Op::MakeNode { dirfd: CWD, path: bytes("b"), mode: libc::S_IFBLK, rdev: 0 }),
                (2, Op::MakeNode { dirfd: CWD, path: bytes("c"), mode: libc::S_IFCHR, rdev: 0 })]),
        ("setting no time looks at nothing",
            vec![(1, times("none", [SetTime::Omit; 2], 0x400)),
                (1, Op::SetTimesFd { fd: 9, times: [SetTime::Omit; 2] })]),
        ("impossible nanoseconds are seen when the file is found",
            vec![(1, times("none", [SetTime::At(1, 1_000_000_000), SetTime::Now], 0)),
                (1, times("/", [SetTime::At(1, 1_000_000_000), SetTime::Now], 0)),
                (1, Op::SetTimesFd { fd: 9, times: [SetTime::At(1, 1_000_000_000); 2] })]),
        ("an unknown inode flag is for the owner to hear of",
            vec![(1, open("f", O_CREAT, 0o666)), (2, open("f", O_RDONLY, 0)),
                (2, Op::SetFlags { fd: 0, flags: 1 }), (1, Op::SetFlags { fd: 0, flags: 1 })]),
    ]
}

fn names() -> Vec<(&'static str, Script)> {
    vec![
        ("a target above the source is not empty, whatever the rights and kinds",
            vec![(1, dir("d", 0o777)), (1, open("d/f", O_CREAT, 0)), (2, rename("d/f", "d", 0)),
                (1, rename("d/f", "d", 0)), (1, rename("d/f", "d", 2))]),
        ("a directory cannot replace a file, which is said before its own rights",
            vec![(1, chmod("/", OPEN_ROOT)), (2, dir("c", 0o755)), (1, open("b", O_CREAT, 0)),
                (1, dir("c/d", 0o755)), (2, rename("c/d", "b", 0))]),
        ("nothing can be renamed into a removed directory",
            vec![(1, dir("a", 0o777)), (1, dir("a/b", 0o777)),
                (1, Op::ChangeDir { path: bytes("a/b") }), (1, unlink("/a/b", libc::AT_REMOVEDIR)),
                (1, rename("/a", "b", 0)), (1, open("/f", O_CREAT, 0)), (1, rename("/f", "b/", 0))]),
        ("a whiteout is left behind",
            vec![(1, open("a", O_CREAT, 0)), (1, rename("a", "b", libc::RENAME_WHITEOUT)),
                (1, stat("a"))]),
        ("a symlink's target is too long before its name is taken",
            vec![(1, symlink("t", "a")), (1, symlink(&"t/".repeat(2048), "a"))]),
        ("a nameless file gets a name unless O_EXCL forbids",
            vec![(1, open(".", TMPFILE, 0o600)), (1, open(".", TMPFILE | O_EXCL, 0o600)),
                (1, Op::Link { old_dirfd: 0, old: bytes(""), new_dirfd: CWD, new: bytes("a"),
                    flags: AT_EMPTY_PATH }),
                (1, Op::Link { old_dirfd: 1, old: bytes(""), new_dirfd: CWD, new: bytes("b"),
                    flags: AT_EMPTY_PATH })]),
    ]
}

fn xattrs() -> Vec<(&'static str, Script)> {
    let target = |path: &str| Target::Path(bytes(path));
    let set = |path: &str, name: &str, len: usize, flags| Op::SetXattr {
        target: target(path),
        name: bytes(name),
        value: bytes(vec![b'v'; len]),
        flags,
    };
    let remove = |path: &str, name: &str| Op::RemoveXattr { target: target(path), name: bytes(name) };
    let get = |path: &str, name: &str| Op::GetXattr { target: target(path), name: bytes(name) };
    let long = format!("user.{}", "x".repeat(251));
    let group = [(1, 1, NO_ID), (2, 2, 1000), (4, 6, NO_ID), (0x10, 0, NO_ID), (0x20, 3, NO_ID)];
    let wrong = [(1, 6, NO_ID), (2, 1, 1001)];
    let default = bytes("system.posix_acl_default");
    vec![
        ("flags, name and size are looked at before the path, in this order",
            vec![(1, set("none", &long, 65537, 4)), (1, set("none", &long, 65537, 0)),
                (1, set("none", "user.a", 65537, 0)), (1, get("none", "")),
                (1, remove("none", &long))]),
        ("a name without its part behind the prefix is refused after the right is checked",
            vec![(1, open("f", O_CREAT, 0)), (2, set("f", "user.", 1, 0)),
                (2, get("f", "trusted.")), (2, remove("f", "trusted.")),
                (1, set("f", "user.", 1, 0)), (2, set("f", "nothing.a", 1, 0)),
                (2, set("f", "system.a", 1, 0))]),
        ("an empty ACL removes, a senseless one is EINVAL for the owner only",
            vec![(1, open("f", O_CREAT, 0o640)), (1, acl("f", &group)), (1, acl("f", &[])),
                (1, stat("f")), (2, acl("f", &wrong)), (1, acl("f", &wrong))]),
        ("a mask of nothing makes the mode bits speak",
            vec![(1, dir("d", 0o755)), (1, acl("d", &group)), (2, stat("d/x")),
                (2, open("d", O_RDONLY, 0))]),
        ("what cannot have a default ACL has none to remove, whoever asks",
            vec![(1, open("f", O_CREAT, 0)),
                (2, Op::RemoveXattr { target: target("f"), name: default.clone() }),
                (2, Op::SetXattr { target: target("f"), name: default, value: acl_value(&group),
                    flags: 0 })]),
        ("who is not of the group takes setgid away with the ACL",
            vec![(1, chmod("/", 0o2777)), (2, dir("d", 0o755)),
                (2, remove("d", "system.posix_acl_access")), (1, stat("d"))]),
    ]
}

fn acl_value(entries: &[(u16, u16, u32)]) -> crate::Bytes {
    match acl("", entries) {
        Op::SetXattr { value, .. } => value,
        _ => crate::Bytes::default(),
    }
}

fn processes() -> Vec<(&'static str, Script)> {
    let lock = |kind, whence, start, len| LockSpec { ofd: false, kind, whence, start, len };
    vec![
        ("chroot asks for the right to enter before the privilege",
            vec![(1, chmod("/", 0o666)), (2, Op::ChangeRoot { path: bytes("/") })]),
        ("asking for a lock needs no right to take it",
            vec![(1, open("f", O_CREAT, 0o666)),
                (1, Op::GetLock { fd: 0, lock: lock(LockKind::Write, 0, 4, 9) }),
                (1, Op::SetLock { fd: 0, lock: lock(LockKind::Write, 0, 4, 9) })]),
        ("a lock that starts behind the last offset is EOVERFLOW, even if it reaches back",
            vec![(1, file("f")), (1, Op::Write { fd: 0, data: Fill { seed: 1, len: 1 } }),
                (1, Op::GetLock { fd: 0, lock: lock(LockKind::Read, 2, i64::MAX, -6) })]),
        ("flock gives the old lock up before it fails to get the new one",
            vec![(1, file("f")), (1, file("f")), (1, file("f")),
                (1, Op::Flock { fd: 0, op: libc::LOCK_SH | libc::LOCK_NB }),
                (1, Op::Flock { fd: 1, op: libc::LOCK_SH | libc::LOCK_NB }),
                (1, Op::Flock { fd: 0, op: libc::LOCK_EX | libc::LOCK_NB }),
                (1, Op::Flock { fd: 1, op: libc::LOCK_UN }),
                (1, Op::Flock { fd: 2, op: libc::LOCK_EX | libc::LOCK_NB })]),
        ("any close ends the record locks of the process",
            vec![(1, file("f")), (1, file("f")), (2, open("f", O_RDWR, 0)),
                (1, chmod("f", 0o666)), (2, open("f", O_RDWR, 0)),
                (1, Op::SetLock { fd: 0, lock: lock(LockKind::Write, 0, 0, 0) }),
                (2, Op::GetLock { fd: 0, lock: lock(LockKind::Write, 0, 3, 1) }),
                (1, Op::Close { fd: 1 }),
                (2, Op::GetLock { fd: 0, lock: lock(LockKind::Write, 0, 3, 1) })]),
    ]
}
