//! Scripts about the contents of two files only, for systems whose trees and attributes change
//! independently. They end with reading both files.

use std::ops::Range;

use libc::{O_APPEND, O_CREAT, O_DIRECT, O_RDWR};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::bytes::bytes;
use crate::op::{CWD, Fd, Fill, Op};

/// More bytes than a file has in the end.
const ALL: usize = 1 << 20;

/// Scripts of about `len` steps, for a system that knows all modes of `fallocate`.
pub fn data_script(len: Range<usize>) -> impl Strategy<Value = Vec<(usize, Op)>> {
    let modes = vec![0, 1, 3, 0x10, 0x11, 8, 8, 0x20, 0x20];
    vec(step(0..3, modes), len).prop_map(|steps| {
        let opening = [
            open("a", O_RDWR | O_CREAT),
            open("b", O_RDWR | O_CREAT),
            open("a", O_RDWR | O_APPEND),
        ];
        script(&opening, steps, &[0, 1])
    })
}

/// Scripts of about `len` steps, for a system that shifts no ranges. Each file is open with and
/// without `O_DIRECT`, and that changes.
pub fn direct_script(len: Range<usize>) -> impl Strategy<Value = Vec<(usize, Op)>> {
    let fd = || 0..6;
    let len_of_part = || prop_oneof![0usize..5000, Just(4096)];
    let part = || (1u8..250, len_of_part()).prop_map(|(seed, len)| Fill { seed, len });
    let status = select(vec![0, O_DIRECT, O_DIRECT, O_DIRECT | O_APPEND, O_APPEND]);
    let more = prop_oneof![
        3 => (fd(), status).prop_map(|(fd, flags)| Op::SetStatus { fd, flags }),
        2 => fd().prop_map(|fd| Op::GetStatus { fd }),
        3 => (fd(), len_of_read()).prop_map(|(fd, len)| Op::Read { fd, len }),
        2 => (fd(), vec(len_of_part(), 0..4)).prop_map(|(fd, lens)| Op::ReadV { fd, lens }),
        3 => (fd(), part()).prop_map(|(fd, data)| Op::Write { fd, data }),
        2 => (fd(), vec(part(), 0..4)).prop_map(|(fd, parts)| Op::WriteV { fd, parts }),
        2 => (fd(), vec(part(), 0..4), size())
            .prop_map(|(fd, parts, offset)| Op::WriteVAt { fd, parts, offset }),
        1 => (fd(), any::<bool>()).prop_map(|(fd, data_only)| Op::Sync { fd, data_only }),
    ];
    let step = prop_oneof![3 => step(fd(), vec![0, 1, 3, 3, 0x10, 0x11]), 2 => more];
    vec(step, len).prop_map(|steps| {
        let opening = [
            open("a", O_RDWR | O_CREAT),
            open("b", O_RDWR | O_CREAT | O_DIRECT),
            open("a", O_RDWR | O_DIRECT),
            open("b", O_RDWR),
            open("a", O_RDWR | O_DIRECT | O_APPEND),
            open("b", O_RDWR | O_APPEND),
        ];
        script(&opening, steps, &[0, 1, 2, 3])
    })
}

/// A step about contents, through one of these descriptors.
fn step(fds: Range<Fd>, modes: Vec<i32>) -> impl Strategy<Value = Op> {
    let fd = || fds.clone();
    let fill = (
        1u8..250,
        prop_oneof![0usize..5000, (0usize..4).prop_map(|pages| pages * 4096)],
    )
        .prop_map(|(seed, len)| Fill { seed, len });
    prop_oneof![
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
    ]
}

fn size() -> impl Strategy<Value = i64> {
    prop_oneof![2 => 0i64..60_000, 3 => (0i64..12).prop_map(|pages| pages * 4096)]
}

fn len_of_read() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..5000, Just(1usize << 16)]
}

fn open(path: &str, flags: i32) -> Op {
    Op::Open {
        dirfd: CWD,
        path: bytes(path),
        flags,
        mode: 0o644,
    }
}

/// Runs all as process 1, and ends with reading through these descriptors.
fn script(opening: &[Op], steps: Vec<Op>, shown: &[Fd]) -> Vec<(usize, Op)> {
    let show = |&fd| Op::ReadAt {
        fd,
        len: ALL,
        offset: 0,
    };
    let all = opening.iter().cloned().chain(steps);
    all.chain(shown.iter().map(show))
        .map(|op| (1, op))
        .collect()
}
