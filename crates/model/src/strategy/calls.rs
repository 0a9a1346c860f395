//! The operations by family.

use libc::{O_APPEND, O_CLOEXEC, O_NOATIME};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;

use super::abilities::Abilities;
use super::words::{
    acl, acl_name, at_flags, dirfd, fd, fill, len, mode, offset, open_flags, owner, path, set_time,
    statx_flags, statx_mask, target, xattr_name,
};
use crate::bytes::Bytes;
use crate::op::{LockKind, LockSpec, Op};

/// One operation.
pub fn op(abilities: Abilities) -> impl Strategy<Value = Op> {
    Union::new_weighted(vec![
        (26, descriptors(abilities).boxed()),
        (18, data().boxed()),
        (7, space(abilities).boxed()),
        (21, attributes().boxed()),
        (4, inode_flags(abilities).boxed()),
        (34, names().boxed()),
        (8, xattrs().boxed()),
        (6, locks().boxed()),
        (7, processes().boxed()),
    ])
}

fn descriptors(abilities: Abilities) -> impl Strategy<Value = Op> {
    let open =
        (dirfd(), path(), open_flags(abilities), mode()).prop_map(|(dirfd, path, flags, mode)| {
            Op::Open {
                dirfd,
                path,
                flags,
                mode,
            }
        });
    let direct = if abilities.direct { libc::O_DIRECT } else { 0 };
    let odd =
        prop_oneof![
            fd().prop_map(|fd| Op::Dup { fd }),
            (fd(), fd()).prop_map(|(fd, to)| Op::Dup2 { fd, to }),
            (fd(), fd(), select(vec![0, O_CLOEXEC, O_APPEND]))
                .prop_map(|(fd, to, flags)| Op::Dup3 { fd, to, flags }),
            (fd(), fd(), any::<bool>()).prop_map(|(fd, least, cloexec)| Op::DupFrom {
                fd,
                least,
                cloexec
            }),
            fd().prop_map(|fd| Op::GetFdFlags { fd }),
            (fd(), any::<bool>()).prop_map(|(fd, cloexec)| Op::SetFdFlags { fd, cloexec }),
            fd().prop_map(|fd| Op::GetStatus { fd }),
            (
                fd(),
                select(vec![
                    0,
                    O_APPEND,
                    O_NOATIME,
                    O_APPEND | libc::O_NONBLOCK,
                    direct
                ])
            )
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
    let stat = (dirfd(), path(), at_flags()).prop_map(|(dirfd, path, flags)| Op::Stat {
        dirfd,
        path,
        flags,
    });
    let access = (
        dirfd(),
        path(),
        select(vec![0, 1, 2, 4, 6, 7, 8]),
        at_flags(),
    )
        .prop_map(|(dirfd, path, mask, flags)| Op::Access {
            dirfd,
            path,
            mask,
            flags,
        });
    let chmod =
        (dirfd(), path(), mode(), at_flags()).prop_map(|(dirfd, path, mode, flags)| Op::Chmod {
            dirfd,
            path,
            mode,
            flags,
        });
    let chown = (dirfd(), path(), owner(), owner(), at_flags()).prop_map(
        |(dirfd, path, uid, gid, flags)| Op::Chown {
            dirfd,
            path,
            uid,
            gid,
            flags,
        },
    );
    let times = (dirfd(), path(), [set_time(), set_time()], at_flags()).prop_map(
        |(dirfd, path, times, flags)| Op::SetTimes {
            dirfd,
            path,
            times,
            flags,
        },
    );
    let statx =
        (dirfd(), path(), statx_flags(), statx_mask()).prop_map(|(dirfd, path, flags, mask)| {
            let itself = flags & libc::AT_EMPTY_PATH != 0;
            let path = if itself { Bytes::default() } else { path };
            Op::StatX {
                dirfd,
                path,
                flags,
                mask,
            }
        });
    prop_oneof![
        4 => stat,
        6 => statx,
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
    let flags = select(vec![
        0u32, 0, 0, 0x10, 0x20, 0x40, 0x80, 0xc0, 0x30, 1, 0x1000,
    ]);
    let mut xflags = vec![0u32, 0, 8, 0x10, 0x40, 0x80];
    let mut projects = vec![0u32];
    if abilities.projects {
        xflags.extend([0x200, 0x200, 0x200]);
        projects.push(7);
    }
    prop_oneof![
        2 => fd().prop_map(|fd| Op::GetFlags { fd }),
        4 => (fd(), flags).prop_map(|(fd, flags)| Op::SetFlags { fd, flags }),
        1 => fd().prop_map(|fd| Op::GetProject { fd }),
        1 => (fd(), select(xflags), select(projects))
            .prop_map(|(fd, xflags, project)| Op::SetProject { fd, xflags, project }),
    ]
}

pub(super) fn names() -> impl Strategy<Value = Op> {
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
            Op::Link {
                old_dirfd,
                old,
                new_dirfd,
                new,
                flags,
            }
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
    let node = (
        dirfd(),
        path(),
        select(vec![
            0,
            libc::S_IFREG,
            libc::S_IFIFO,
            libc::S_IFSOCK,
            libc::S_IFCHR,
            libc::S_IFBLK,
            libc::S_IFDIR,
            libc::S_IFLNK,
            0o030000,
        ]),
        mode(),
        select(vec![0u32, 0x103, 0x801]),
    )
        .prop_map(|(dirfd, path, kind, mode, rdev)| {
            let device = matches!(kind, libc::S_IFCHR | libc::S_IFBLK);
            Op::MakeNode {
                dirfd,
                path,
                mode: kind | mode,
                rdev: if device { rdev } else { 0 },
            }
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
    let set = (
        target(),
        xattr_name(),
        value,
        select(vec![0, 0, 0, 1, 2, 3, 4]),
    )
        .prop_map(|(target, name, value, flags)| Op::SetXattr {
            target,
            name,
            value,
            flags,
        });
    let set_acl = (target(), acl_name(), acl(), select(vec![0, 0, 0, 1, 2])).prop_map(
        |(target, name, value, flags)| Op::SetXattr {
            target,
            name,
            value,
            flags,
        },
    );
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
    let lock = (
        any::<bool>(),
        kind,
        select(vec![0, 0, 0, 1, 2, 3]),
        small(),
        small(),
    )
        .prop_map(|(ofd, kind, whence, start, len)| LockSpec {
            ofd,
            kind,
            whence,
            start,
            len,
        });
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
