//! Random scripts: few names, few descriptors, small trees, so that operations meet often.

use std::ops::Range;

use libc::{O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOFOLLOW};
use libc::{O_PATH, O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;

use crate::aim::{Shot, aimed};
use crate::bytes::{Bytes, bytes};
use crate::op::{CWD, Fd, Fill, LockKind, LockSpec, Op, SetTime, Target};

/// What a script may contain, by what the system under test can do.
#[derive(Debug, Clone, Copy)]
pub struct Abilities {
    /// `FALLOC_FL_ZERO_RANGE`, `_COLLAPSE_RANGE` and `_INSERT_RANGE`.
    pub ranges: bool,
    /// Project ids.
    pub projects: bool,
}

/// Scripts of about `len` steps: process and operation. They begin with a few files and open
/// descriptors, and most operations are aimed at what exists then.
pub fn script(abilities: Abilities, len: Range<usize>) -> impl Strategy<Value = Vec<(usize, Op)>> {
    (vec(opening(), 0..10), vec(shot(op(abilities)), len)).prop_map(|(opening, shots)| {
        let chmod = Op::Chmod { dirfd: CWD, path: bytes("/"), mode: 0o777, flags: 0 };
        let chmod = Shot { process: 0, op: chmod, aims: [0; 4] };
        aimed(&[vec![chmod], opening, shots].concat())
    })
}

/// Scripts of about `len` steps about the contents of two files and nothing else, for systems
/// whose trees and attributes have a life of their own. They end with reading both files.
pub fn data_script(len: Range<usize>) -> impl Strategy<Value = Vec<(usize, Op)>> {
    let fd = || 0..3;
    let size = || prop_oneof![2 => 0i64..60_000, 3 => (0i64..12).prop_map(|pages| pages * 4096)];
    let fill = (1u8..250, prop_oneof![0usize..5000, (0usize..4).prop_map(|pages| pages * 4096)])
        .prop_map(|(seed, len)| Fill { seed, len });
    let modes = vec![0, 1, 3, 0x10, 0x11, 8, 8, 0x20, 0x20];
    let step = prop_oneof![
        4 => (fd(), fill, size()).prop_map(|(fd, data, offset)| Op::WriteAt { fd, data, offset }),
        2 => (fd(), len_of_read(), size())
            .prop_map(|(fd, len, offset)| Op::ReadAt { fd, len, offset }),
        1 => (fd(), size()).prop_map(|(fd, len)| Op::TruncateFd { fd, len }),
        4 => (fd(), select(modes), size(), size())
            .prop_map(|(fd, mode, offset, len)| Op::Allocate { fd, mode, offset, len }),
        1 => (fd(), size(), fd(), size(), 0usize..30_000).prop_map(|(from, at, to, to_at, len)| {
            Op::Copy { from, from_at: Some(at), to, to_at: Some(to_at), len, flags: 0 }
        }),
        1 => (fd(), size(), select(vec![3, 4]))
            .prop_map(|(fd, offset, whence)| Op::Seek { fd, offset, whence }),
        1 => (fd(), select(vec![0, 1, 2]))
            .prop_map(|(fd, whence)| Op::Seek { fd, offset: 0, whence }),
    ];
    vec(step, len).prop_map(|steps| {
        let open = |path: &str, flags| Op::Open { dirfd: CWD, path: bytes(path), flags, mode: 0o644 };
        let create = O_RDWR | O_CREAT;
        let opening = [open("a", create), open("b", create), open("a", O_RDWR | O_APPEND)];
        let ending = [0, 1].map(|fd| Op::ReadAt { fd, len: 1 << 20, offset: 0 });
        opening.into_iter().chain(steps).chain(ending).map(|op| (1, op)).collect()
    })
}

fn len_of_read() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..5000, Just(1usize << 16)]
}

/// Something to begin with.
fn opening() -> impl Strategy<Value = Shot> {
    let mode = || select(vec![0o777u32, 0o777, 0o666, 0o755, 0o6777]);
    shot(prop_oneof![
        1 => (path(), mode()).prop_map(|(path, mode)| Op::MakeDir { dirfd: CWD, path, mode }),
        3 => (path(), mode(), select(vec![O_RDWR | O_CREAT, O_RDWR, O_RDONLY | O_DIRECTORY]))
            .prop_map(|(path, mode, flags)| Op::Open { dirfd: CWD, path, flags, mode }),
    ])
}

fn shot(op: impl Strategy<Value = Op>) -> impl Strategy<Value = Shot> {
    (any::<u8>(), op, any::<[u8; 4]>()).prop_map(|(process, op, aims)| Shot { process, op, aims })
}

/// One operation.
pub fn op(abilities: Abilities) -> impl Strategy<Value = Op> {
    Union::new_weighted(vec![
        (26, descriptors().boxed()),
        (18, data().boxed()),
        (7, space(abilities).boxed()),
        (16, attributes().boxed()),
        (3, inode_flags(abilities).boxed()),
        (34, names().boxed()),
        (8, xattrs().boxed()),
        (6, locks().boxed()),
        (7, processes().boxed()),
    ])
}

fn descriptors() -> impl Strategy<Value = Op> {
    let open = (dirfd(), path(), open_flags(), mode())
        .prop_map(|(dirfd, path, flags, mode)| Op::Open { dirfd, path, flags, mode });
    let odd = prop_oneof![
        fd().prop_map(|fd| Op::Dup { fd }),
        (fd(), fd()).prop_map(|(fd, to)| Op::Dup2 { fd, to }),
        (fd(), fd(), select(vec![0, O_CLOEXEC, O_APPEND]))
            .prop_map(|(fd, to, flags)| Op::Dup3 { fd, to, flags }),
        (fd(), fd(), any::<bool>())
            .prop_map(|(fd, least, cloexec)| Op::DupFrom { fd, least, cloexec }),
        fd().prop_map(|fd| Op::GetFdFlags { fd }),
        (fd(), any::<bool>()).prop_map(|(fd, cloexec)| Op::SetFdFlags { fd, cloexec }),
        fd().prop_map(|fd| Op::GetStatus { fd }),
        (fd(), select(vec![0, O_APPEND, O_NOATIME, O_APPEND | libc::O_NONBLOCK]))
            .prop_map(|(fd, flags)| Op::SetStatus { fd, flags }),
    ];
    prop_oneof![15 => open, 5 => fd().prop_map(|fd| Op::Close { fd }), 6 => odd]
}

fn data() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (fd(), len()).prop_map(|(fd, len)| Op::Read { fd, len }),
        1 => (fd(), vec(len(), 0..4)).prop_map(|(fd, lens)| Op::ReadV { fd, lens }),
        2 => (fd(), len(), offset()).prop_map(|(fd, len, offset)| Op::ReadAt { fd, len, offset }),
        1 => (fd(), vec(len(), 0..4), offset())
            .prop_map(|(fd, lens, offset)| Op::ReadVAt { fd, lens, offset }),
        5 => (fd(), fill()).prop_map(|(fd, data)| Op::Write { fd, data }),
        1 => (fd(), vec(fill(), 0..4)).prop_map(|(fd, parts)| Op::WriteV { fd, parts }),
        3 => (fd(), fill(), offset())
            .prop_map(|(fd, data, offset)| Op::WriteAt { fd, data, offset }),
        1 => (fd(), vec(fill(), 0..4), offset())
            .prop_map(|(fd, parts, offset)| Op::WriteVAt { fd, parts, offset }),
        4 => (fd(), offset(), select(vec![0, 0, 1, 2, 3, 3, 4, 4, 5, -1]))
            .prop_map(|(fd, offset, whence)| Op::Seek { fd, offset, whence }),
        1 => (fd(), any::<bool>()).prop_map(|(fd, data_only)| Op::Sync { fd, data_only }),
        1 => fd().prop_map(|fd| Op::SyncFs { fd }),
    ]
}

fn space(abilities: Abilities) -> impl Strategy<Value = Op> {
    let mut modes = vec![0, 0, 1, 1, 2, 3, 3, 3, 0x40];
    if abilities.ranges {
        modes.extend([0x10, 0x10, 0x11, 8, 8, 8, 9, 0x20, 0x20, 0x20]);
    }
    let at = || prop::option::of(offset());
    prop_oneof![
        2 => (path(), offset()).prop_map(|(path, len)| Op::Truncate { path, len }),
        2 => (fd(), offset()).prop_map(|(fd, len)| Op::TruncateFd { fd, len }),
        3 => (fd(), select(modes), offset(), offset())
            .prop_map(|(fd, mode, offset, len)| Op::Allocate { fd, mode, offset, len }),
        3 => (fd(), at(), fd(), at(), len(), select(vec![0u32, 0, 0, 0, 0, 0, 0, 1])).prop_map(
            |(from, from_at, to, to_at, len, flags)| {
                Op::Copy { from, from_at, to, to_at, len, flags }
            }
        ),
    ]
}

fn attributes() -> impl Strategy<Value = Op> {
    let stat = (dirfd(), path(), at_flags())
        .prop_map(|(dirfd, path, flags)| Op::Stat { dirfd, path, flags });
    let access = (dirfd(), path(), select(vec![0, 1, 2, 4, 6, 7, 8]), at_flags())
        .prop_map(|(dirfd, path, mask, flags)| Op::Access { dirfd, path, mask, flags });
    let chmod = (dirfd(), path(), mode(), at_flags())
        .prop_map(|(dirfd, path, mode, flags)| Op::Chmod { dirfd, path, mode, flags });
    let chown = (dirfd(), path(), owner(), owner(), at_flags())
        .prop_map(|(dirfd, path, uid, gid, flags)| Op::Chown { dirfd, path, uid, gid, flags });
    let times = (dirfd(), path(), [set_time(), set_time()], at_flags())
        .prop_map(|(dirfd, path, times, flags)| Op::SetTimes { dirfd, path, times, flags });
    prop_oneof![
        4 => stat,
        2 => fd().prop_map(|fd| Op::StatFd { fd }),
        2 => access,
        3 => chmod,
        1 => (fd(), mode()).prop_map(|(fd, mode)| Op::ChmodFd { fd, mode }),
        2 => chown,
        1 => (fd(), owner(), owner()).prop_map(|(fd, uid, gid)| Op::ChownFd { fd, uid, gid }),
        2 => times,
        1 => (fd(), [set_time(), set_time()]).prop_map(|(fd, times)| Op::SetTimesFd { fd, times }),
    ]
}

fn inode_flags(abilities: Abilities) -> impl Strategy<Value = Op> {
    let flags = select(vec![0u32, 0, 0, 0x10, 0x20, 0x40, 0x80, 0xc0, 0x30, 1, 0x1000]);
    let xflags = select(vec![0u32, 0, 8, 0x10, 0x40, 0x80]);
    let projects = if abilities.projects { vec![0u32, 7] } else { vec![0] };
    prop_oneof![
        2 => fd().prop_map(|fd| Op::GetFlags { fd }),
        4 => (fd(), flags).prop_map(|(fd, flags)| Op::SetFlags { fd, flags }),
        1 => fd().prop_map(|fd| Op::GetProject { fd }),
        1 => (fd(), xflags, select(projects))
            .prop_map(|(fd, xflags, project)| Op::SetProject { fd, xflags, project }),
    ]
}

fn names() -> impl Strategy<Value = Op> {
    let link_flags = select(vec![
        0,
        0,
        0,
        libc::AT_SYMLINK_FOLLOW,
        libc::AT_EMPTY_PATH,
        libc::AT_EMPTY_PATH,
        libc::AT_SYMLINK_NOFOLLOW,
    ]);
    let link = (dirfd(), path(), dirfd(), path(), link_flags).prop_map(
        |(old_dirfd, old, new_dirfd, new, flags)| {
            let from_fd = flags == libc::AT_EMPTY_PATH && old_dirfd >= 0;
            let old = if from_fd { Bytes::default() } else { old };
            Op::Link { old_dirfd, old, new_dirfd, new, flags }
        },
    );
    let rename_flags = prop_oneof![6 => Just(0u32), 5 => 1u32..5, 1 => 5u32..16];
    let rename = (dirfd(), path(), dirfd(), path(), rename_flags).prop_map(
        |(old_dirfd, old, new_dirfd, new, flags)| Op::Rename {
            old_dirfd,
            old,
            new_dirfd,
            new,
            flags,
        },
    );
    let node = (dirfd(), path(), select(vec![0, libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK,
        libc::S_IFCHR, libc::S_IFBLK, libc::S_IFDIR, libc::S_IFLNK, 0o030000]), mode(),
        select(vec![0u32, 0x103, 0x801]))
        .prop_map(|(dirfd, path, kind, mode, rdev)| {
            let device = matches!(kind, libc::S_IFCHR | libc::S_IFBLK);
            Op::MakeNode { dirfd, path, mode: kind | mode, rdev: if device { rdev } else { 0 } }
        });
    prop_oneof![
        4 => link,
        4 => (path(), dirfd(), path())
            .prop_map(|(target, dirfd, path)| Op::Symlink { target, dirfd, path }),
        2 => (dirfd(), path()).prop_map(|(dirfd, path)| Op::ReadLink { dirfd, path }),
        4 => (dirfd(), path(), select(vec![0, 0, 0, 0x200, 0x200, 1]))
            .prop_map(|(dirfd, path, flags)| Op::Unlink { dirfd, path, flags }),
        8 => (dirfd(), path(), mode())
            .prop_map(|(dirfd, path, mode)| Op::MakeDir { dirfd, path, mode }),
        2 => node,
        9 => rename,
        2 => path().prop_map(|path| Op::List { path }),
        2 => (fd(), prop::option::of(0usize..5)).prop_map(|(fd, split)| Op::ListFd { fd, split }),
    ]
}

fn xattrs() -> impl Strategy<Value = Op> {
    let value = prop_oneof![
        4 => vec(any::<u8>(), 0..6).prop_map(Bytes),
        1 => select(vec![100usize, 65536, 65537]).prop_map(|len| Bytes(vec![b'v'; len])),
    ];
    let set = (target(), xattr_name(), value, select(vec![0, 0, 0, 1, 2, 3, 4]))
        .prop_map(|(target, name, value, flags)| Op::SetXattr { target, name, value, flags });
    let set_acl = (target(), acl_name(), acl(), select(vec![0, 0, 0, 1, 2]))
        .prop_map(|(target, name, value, flags)| Op::SetXattr { target, name, value, flags });
    let name = || prop_oneof![xattr_name(), acl_name()];
    prop_oneof![
        3 => (target(), name()).prop_map(|(target, name)| Op::GetXattr { target, name }),
        4 => set,
        6 => set_acl,
        2 => target().prop_map(|target| Op::ListXattr { target }),
        2 => (target(), name()).prop_map(|(target, name)| Op::RemoveXattr { target, name }),
    ]
}

fn locks() -> impl Strategy<Value = Op> {
    let small = || prop_oneof![8 => 0i64..30, 1 => -20i64..0, 1 => Just(i64::MAX), 1 => Just(0)];
    let kind = select(vec![LockKind::Read, LockKind::Write, LockKind::Unlock]);
    let lock = (any::<bool>(), kind, select(vec![0, 0, 0, 1, 2, 3]), small(), small())
        .prop_map(|(ofd, kind, whence, start, len)| LockSpec { ofd, kind, whence, start, len });
    let ops = vec![libc::LOCK_SH, libc::LOCK_EX, libc::LOCK_UN, 3];
    prop_oneof![
        3 => (fd(), select(ops)).prop_map(|(fd, op)| Op::Flock { fd, op: op | libc::LOCK_NB }),
        6 => (fd(), lock.clone()).prop_map(|(fd, lock)| Op::SetLock { fd, lock }),
        3 => (fd(), lock).prop_map(|(fd, lock)| Op::GetLock { fd, lock }),
    ]
}

fn processes() -> impl Strategy<Value = Op> {
    let ids = || select(vec![0u32, 1000, 1000, 1001]);
    prop_oneof![
        6 => path().prop_map(|path| Op::ChangeDir { path }),
        2 => fd().prop_map(|fd| Op::ChangeDirFd { fd }),
        4 => Just(Op::GetCwd),
        1 => path().prop_map(|path| Op::ChangeRoot { path }),
        2 => select(vec![0u32, 0o022, 0o077, 0o777, 0o7027]).prop_map(|mask| Op::Umask { mask }),
        3 => (ids(), ids(), prop::sample::subsequence(vec![1000u32, 1001, 2000], 0..=3))
            .prop_map(|(uid, gid, groups)| Op::SetCredentials { uid, gid, groups }),
        1 => prop_oneof![2 => Just(Op::Fork), 1 => Just(Op::Exit)],
    ]
}

fn name() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        40 => select(vec!["a", "b", "c"]).prop_map(bytes),
        2 => Just(bytes(".")),
        4 => Just(bytes("..")),
        1 => select(vec![bytes([b'n'; 255]), bytes([b'n'; 256]), bytes(b"\xff\n")]),
    ]
}

/// One to three components, sometimes absolute, sometimes with slashes behind.
pub fn path() -> impl Strategy<Value = Bytes> {
    let lead = select(vec!["", "", "", "", "", "/", "/", "//"]);
    let tail = prop_oneof![12 => Just(""), 1 => Just("/"), 1 => Just("/.")];
    let usual = (lead, prop_oneof![6 => vec(name(), 1), 3 => vec(name(), 2), 1 => vec(name(), 3)], tail).prop_map(|(lead, names, tail)| {
        let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        Bytes([lead.as_bytes(), &names.join(&b'/'), tail.as_bytes()].concat())
    });
    let odd = vec![bytes(""), bytes("/"), bytes("./".repeat(2047)), bytes("./".repeat(2048))];
    prop_oneof![40 => usual, 1 => select(odd)]
}

fn fd() -> impl Strategy<Value = Fd> {
    prop_oneof![30 => 0..4, 6 => 4..8, 1 => select(vec![-1, 99, Fd::MAX])]
}

fn dirfd() -> impl Strategy<Value = Fd> {
    prop_oneof![4 => Just(CWD), 1 => fd()]
}

fn mode() -> impl Strategy<Value = u32> {
    let usual = vec![0o777, 0o777, 0o755, 0o700, 0o666, 0o644, 0o640, 0o600, 0o4755, 0o2755, 0o2777,
        0o6777, 0o1777, 0o2745, 0, 0o070];
    prop_oneof![8 => select(usual), 1 => 0u32..0o10000]
}

fn open_flags() -> impl Strategy<Value = i32> {
    let bits = |bits: Vec<i32>, count| {
        prop::sample::subsequence(bits, 0..=count).prop_map(|b| b.into_iter().fold(0, |a, b| a | b))
    };
    let access = || select(vec![O_RDONLY, O_WRONLY, O_RDWR, O_RDWR]);
    let create = (access(), bits(vec![O_EXCL, O_TRUNC, O_APPEND, O_CLOEXEC, O_NOFOLLOW], 1))
        .prop_map(|(access, bits)| access | bits | O_CREAT);
    let every = vec![O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW, O_NOATIME,
        O_PATH, O_TMPFILE, O_CLOEXEC, libc::O_NONBLOCK, libc::O_SYNC, libc::O_DSYNC];
    prop_oneof![
        8 => create,
        4 => Just(O_RDONLY | O_DIRECTORY),
        2 => (select(vec![O_WRONLY, O_RDWR]), bits(vec![O_EXCL], 1))
            .prop_map(|(access, bits)| access | bits | O_TMPFILE),
        3 => access(),
        2 => bits(vec![O_NOFOLLOW, O_DIRECTORY], 2).prop_map(|bits| bits | O_PATH),
        5 => (access(), bits(every, 4)).prop_map(|(access, bits)| access | bits),
    ]
}

fn at_flags() -> impl Strategy<Value = i32> {
    let nofollow = libc::AT_SYMLINK_NOFOLLOW;
    let empty = libc::AT_EMPTY_PATH;
    prop_oneof![
        12 => Just(0),
        5 => Just(nofollow),
        2 => Just(empty),
        1 => select(vec![nofollow | empty, 0x200, 0x400, 1]),
    ]
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0usize..20, 1 => select(vec![4096usize, 4097, 9000, 20_000])]
}

fn fill() -> impl Strategy<Value = Fill> {
    let len = prop_oneof![4 => 0usize..20, 2 => select(vec![4095usize, 4096, 5000, 8192, 12_288])];
    (1u8..250, len).prop_map(|(seed, len)| Fill { seed, len })
}

fn offset() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => 0i64..20,
        6 => select(vec![4095i64, 4096, 4097, 8192, 12_288, 16_384, 20_480]),
        2 => 0i64..30_000,
        1 => select(vec![-1, i64::MIN, 1 << 40, i64::MAX - 1, i64::MAX]),
    ]
}

fn owner() -> impl Strategy<Value = Option<u32>> {
    select(vec![None, None, Some(0), Some(1000), Some(1000), Some(1001), Some(2000)])
}

fn set_time() -> impl Strategy<Value = SetTime> {
    prop_oneof![
        2 => Just(SetTime::Now),
        2 => Just(SetTime::Omit),
        4 => (0i64..1000, 0u32..1_000_000_000).prop_map(|(sec, nsec)| SetTime::At(sec, nsec)),
        1 => select(vec![SetTime::At(-5, 1), SetTime::At(1, 1_000_000_000),
            SetTime::At(5_000_000_000, 0), SetTime::At(5_000_000_001, 0)]),
    ]
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        4 => path().prop_map(Target::Path),
        2 => path().prop_map(Target::Link),
        2 => fd().prop_map(Target::Fd),
    ]
}

fn xattr_name() -> impl Strategy<Value = Bytes> {
    let usual = select(vec!["user.a", "user.a", "user.b", "trusted.a", "security.a"]);
    let odd = select(vec!["user.", "trusted.", "nothing.a", "system.a", "", "a"]);
    let long = select(vec![250usize, 251]).prop_map(|len| bytes(format!("user.{}", "x".repeat(len))));
    prop_oneof![12 => usual.prop_map(bytes), 2 => odd.prop_map(bytes), 1 => long]
}

fn acl_name() -> impl Strategy<Value = Bytes> {
    select(vec!["system.posix_acl_access", "system.posix_acl_default"]).prop_map(bytes)
}

/// Bytes of an ACL, mostly a valid one.
fn acl() -> impl Strategy<Value = Bytes> {
    let perms = prop_oneof![3 => Just([7u16; 6]), 5 => prop::array::uniform6(0u16..8)];
    let ids = || select(vec![0u32, 1000, 1001, 2000]);
    let shape = (any::<bool>(), any::<bool>(), any::<bool>());
    let good = (perms, shape, ids(), ids()).prop_map(|(perm, (user, group, mask), uid, gid)| {
        let none = u32::MAX;
        let mut entries = vec![(1u16, perm[0], none)];
        entries.extend(user.then_some((2, perm[1], uid)));
        entries.push((4, perm[2], none));
        entries.extend(group.then_some((8, perm[3], gid)));
        entries.extend((mask || user || group).then_some((0x10, perm[4], none)));
        entries.push((0x20, perm[5], none));
        entries
    });
    let entry = (select(vec![1u16, 2, 4, 8, 0x10, 0x20, 3]), 0u16..9, ids());
    let any_entries = prop_oneof![12 => good, 2 => vec(entry, 0..5)];
    let version = prop_oneof![30 => Just(2u32), 1 => Just(1)];
    let cut = prop_oneof![30 => Just(0usize), 1 => 1usize..5];
    (version, any_entries, cut).prop_map(|(version, entries, cut)| {
        let mut out = version.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            out.extend(tag.to_le_bytes());
            out.extend(perm.to_le_bytes());
            out.extend(id.to_le_bytes());
        }
        out.truncate(out.len() - cut);
        Bytes(out)
    })
}
