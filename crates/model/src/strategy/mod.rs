//! Random scripts: few names, few descriptors, small trees, so that operations meet often.

mod abilities;
mod calls;
mod quotas;
mod waits;
mod words;

use std::ops::Range;

use libc::{O_APPEND, O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

pub use abilities::Abilities;
pub use calls::op;
pub use quotas::quota_script;
pub use waits::waiting_script;
pub use words::path;

use crate::aim::{Shot, aimed};
use crate::bytes::bytes;
use crate::op::{CWD, Fill, Op};

/// Scripts of about `len` steps: process and operation. They begin with a few files and open
/// descriptors, and most operations are aimed at what exists then.
pub fn script(abilities: Abilities, len: Range<usize>) -> impl Strategy<Value = Vec<(usize, Op)>> {
    (vec(opening(), 0..10), vec(shot(op(abilities)), len)).prop_map(|(opening, shots)| {
        let chmod = Op::Chmod {
            dirfd: CWD,
            path: bytes("/"),
            mode: 0o777,
            flags: 0,
        };
        let chmod = Shot {
            process: 0,
            op: chmod,
            aims: [0; 4],
        };
        aimed(&[vec![chmod], opening, shots].concat())
    })
}

/// Scripts of about `len` steps about the contents of two files and nothing else, for systems
/// whose trees and attributes have a life of their own. They end with reading both files.
pub fn data_script(len: Range<usize>) -> impl Strategy<Value = Vec<(usize, Op)>> {
    let fd = || 0..3;
    let size = || prop_oneof![2 => 0i64..60_000, 3 => (0i64..12).prop_map(|pages| pages * 4096)];
    let fill = (
        1u8..250,
        prop_oneof![0usize..5000, (0usize..4).prop_map(|pages| pages * 4096)],
    )
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
        let open = |path: &str, flags| Op::Open {
            dirfd: CWD,
            path: bytes(path),
            flags,
            mode: 0o644,
        };
        let create = O_RDWR | O_CREAT;
        let opening = [
            open("a", create),
            open("b", create),
            open("a", O_RDWR | O_APPEND),
        ];
        let ending = [0, 1].map(|fd| Op::ReadAt {
            fd,
            len: 1 << 20,
            offset: 0,
        });
        opening
            .into_iter()
            .chain(steps)
            .chain(ending)
            .map(|op| (1, op))
            .collect()
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
