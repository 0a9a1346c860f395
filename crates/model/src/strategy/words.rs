//! The arguments of operations.

use libc::{O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOFOLLOW};
use libc::{O_PATH, O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::abilities::Abilities;
use crate::bytes::{Bytes, bytes};
use crate::op::{CWD, Fd, Fill, SetTime, Target};

pub(super) fn name() -> impl Strategy<Value = Bytes> {
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
    let usual = (
        lead,
        prop_oneof![6 => vec(name(), 1), 3 => vec(name(), 2), 1 => vec(name(), 3)],
        tail,
    )
        .prop_map(|(lead, names, tail)| {
            let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
            Bytes([lead.as_bytes(), &names.join(&b'/'), tail.as_bytes()].concat())
        });
    let odd = vec![
        bytes(""),
        bytes("/"),
        bytes("./".repeat(2047)),
        bytes("./".repeat(2048)),
    ];
    prop_oneof![40 => usual, 1 => select(odd)]
}

pub(super) fn fd() -> impl Strategy<Value = Fd> {
    prop_oneof![30 => 0..4, 6 => 4..8, 1 => select(vec![-1, 99, Fd::MAX])]
}

pub(super) fn dirfd() -> impl Strategy<Value = Fd> {
    prop_oneof![4 => Just(CWD), 1 => fd()]
}

pub(super) fn mode() -> impl Strategy<Value = u32> {
    let usual = vec![
        0o777, 0o777, 0o755, 0o700, 0o666, 0o644, 0o640, 0o600, 0o4755, 0o2755, 0o2777, 0o6777,
        0o1777, 0o2745, 0, 0o070,
    ];
    prop_oneof![8 => select(usual), 1 => 0u32..0o10000]
}

pub(super) fn open_flags(abilities: Abilities) -> impl Strategy<Value = i32> {
    let bits = |bits: Vec<i32>, count| {
        prop::sample::subsequence(bits, 0..=count).prop_map(|b| b.into_iter().fold(0, |a, b| a | b))
    };
    let direct: &[i32] = if abilities.direct {
        &[libc::O_DIRECT]
    } else {
        &[]
    };
    let usual = || select(vec![O_RDONLY, O_WRONLY, O_RDWR, O_RDWR]);
    let access = || prop_oneof![15 => usual(), 1 => Just(libc::O_ACCMODE)];
    let create = (
        access(),
        bits(
            [&[O_EXCL, O_TRUNC, O_APPEND, O_CLOEXEC, O_NOFOLLOW], direct].concat(),
            1,
        ),
    )
        .prop_map(|(access, bits)| access | bits | O_CREAT);
    let mut every = vec![
        O_CREAT,
        O_EXCL,
        O_TRUNC,
        O_APPEND,
        O_DIRECTORY,
        O_NOFOLLOW,
        O_NOATIME,
        O_PATH,
        O_TMPFILE,
        O_CLOEXEC,
        libc::O_NONBLOCK,
        libc::O_SYNC,
        libc::O_DSYNC,
    ];
    every.extend(direct);
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

pub(super) fn at_flags() -> impl Strategy<Value = i32> {
    let nofollow = libc::AT_SYMLINK_NOFOLLOW;
    let empty = libc::AT_EMPTY_PATH;
    prop_oneof![
        12 => Just(0),
        5 => Just(nofollow),
        2 => Just(empty),
        1 => select(vec![nofollow | empty, libc::AT_NO_AUTOMOUNT, 0x200, 0x400, 1]),
    ]
}

pub(super) fn statx_flags() -> impl Strategy<Value = i32> {
    let force = libc::AT_STATX_FORCE_SYNC;
    let late = libc::AT_STATX_DONT_SYNC;
    let more = prop_oneof![
        6 => Just(0),
        3 => select(vec![force, late, libc::AT_NO_AUTOMOUNT]),
        1 => Just(force | late),
    ];
    let empty = libc::AT_EMPTY_PATH;
    let at = prop_oneof![4 => at_flags(), 1 => Just(empty)];
    (at, more).prop_map(|(at, more)| at | more)
}

pub(super) fn statx_mask() -> impl Strategy<Value = u32> {
    let (basic, birth) = (libc::STATX_BASIC_STATS, libc::STATX_BTIME);
    let reserved = libc::STATX__RESERVED as u32;
    let odd = vec![
        0,
        birth,
        libc::STATX_SIZE,
        libc::STATX_MODE | libc::STATX_NLINK | libc::STATX_UID | libc::STATX_GID,
        libc::STATX_MTIME | libc::STATX_BLOCKS,
        libc::STATX_ATIME,
        !reserved,
        reserved,
        reserved | basic,
    ];
    prop_oneof![4 => Just(basic | birth), 2 => Just(basic), 3 => select(odd)]
}

pub(super) fn len() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0usize..20, 1 => select(vec![4096usize, 4097, 9000, 20_000])]
}

pub(super) fn fill() -> impl Strategy<Value = Fill> {
    let len = prop_oneof![4 => 0usize..20, 2 => select(vec![4095usize, 4096, 5000, 8192, 12_288])];
    (1u8..250, len).prop_map(|(seed, len)| Fill { seed, len })
}

pub(super) fn offset() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => 0i64..20,
        6 => select(vec![4095i64, 4096, 4097, 8192, 12_288, 16_384, 20_480]),
        2 => 0i64..30_000,
        1 => select(vec![-1, i64::MIN, 1 << 40, i64::MAX - 1, i64::MAX]),
    ]
}

pub(super) fn owner() -> impl Strategy<Value = Option<u32>> {
    select(vec![
        None,
        None,
        Some(0),
        Some(1000),
        Some(1000),
        Some(1001),
        Some(2000),
    ])
}

pub(super) fn set_time() -> impl Strategy<Value = SetTime> {
    prop_oneof![
        2 => Just(SetTime::Now),
        2 => Just(SetTime::Omit),
        4 => (0i64..1000, 0u32..1_000_000_000).prop_map(|(sec, nsec)| SetTime::At(sec, nsec)),
        1 => select(vec![SetTime::At(-5, 1), SetTime::At(1, 1_000_000_000),
            SetTime::At(5_000_000_000, 0), SetTime::At(5_000_000_001, 0)]),
    ]
}

pub(super) fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        4 => path().prop_map(Target::Path),
        2 => path().prop_map(Target::Link),
        2 => fd().prop_map(Target::Fd),
    ]
}

pub(super) fn xattr_name() -> impl Strategy<Value = Bytes> {
    let usual = select(vec![
        "user.a",
        "user.a",
        "user.b",
        "trusted.a",
        "security.a",
    ]);
    let odd = select(vec!["user.", "trusted.", "nothing.a", "system.a", "", "a"]);
    let long =
        select(vec![250usize, 251]).prop_map(|len| bytes(format!("user.{}", "x".repeat(len))));
    prop_oneof![12 => usual.prop_map(bytes), 2 => odd.prop_map(bytes), 1 => long]
}

pub(super) fn acl_name() -> impl Strategy<Value = Bytes> {
    select(vec!["system.posix_acl_access", "system.posix_acl_default"]).prop_map(bytes)
}

/// Bytes of an ACL, mostly a valid one.
pub(super) fn acl() -> impl Strategy<Value = Bytes> {
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
