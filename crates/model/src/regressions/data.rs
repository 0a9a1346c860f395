//! Reading, writing, copying, allocating.

use libc::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};

use super::script::Script;
use super::steps::{copy, file, open, stat, times};
use crate::bytes::bytes;
use crate::op::{Fill, Op, SetTime};

/// The scripts.
pub fn scripts() -> Vec<Script> {
    let fill = |len| Fill { seed: 3, len };
    let allocate = |mode, offset, len| Op::Allocate {
        fd: 0,
        mode,
        offset,
        len,
    };
    let old = |path| times(path, [SetTime::At(1, 0), SetTime::At(2, 0)], 0);
    let truncate = |len| Op::Truncate {
        path: bytes("f"),
        len,
    };
    vec![
        (
            "a transfer ends where offsets end",
            vec![
                (1, file("f")),
                (
                    1,
                    Op::ReadAt {
                        fd: 0,
                        len: 12,
                        offset: i64::MAX - 1,
                    },
                ),
                (
                    1,
                    Op::WriteAt {
                        fd: 0,
                        data: fill(12),
                        offset: i64::MAX - 1,
                    },
                ),
            ],
        ),
        (
            "reading into an empty buffer succeeds on a directory",
            vec![
                (1, open("/", O_RDONLY, 0)),
                (
                    1,
                    Op::ReadV {
                        fd: 0,
                        lens: vec![],
                    },
                ),
                (
                    1,
                    Op::ReadV {
                        fd: 0,
                        lens: vec![1],
                    },
                ),
            ],
        ),
        (
            "seeking beyond the largest offset is EINVAL",
            vec![
                (1, file("f")),
                (
                    1,
                    Op::Write {
                        fd: 0,
                        data: fill(9),
                    },
                ),
                (
                    1,
                    Op::Seek {
                        fd: 0,
                        offset: i64::MAX - 1,
                        whence: libc::SEEK_END,
                    },
                ),
            ],
        ),
        (
            "fallocate checks the range, then the mode, then the descriptor",
            vec![
                (1, open("f", O_CREAT, 0o666)),
                (1, allocate(2, 5, 0)),
                (1, allocate(2, 5, 1)),
                (1, allocate(0, 5, 1)),
                (1, allocate(0x40, 5, 1)),
                (1, allocate(0, -1, 1)),
            ],
        ),
        (
            "copying checks kinds, then modes",
            vec![
                (1, open("/", O_RDONLY, 0)),
                (1, file("f")),
                (1, open("f", O_WRONLY, 0)),
                (1, copy(0, 0, 1, 0, 1)),
                (1, copy(2, 0, 1, 0, 1)),
                (1, copy(1, 0, 0, 0, 1)),
            ],
        ),
        (
            "copying checks offsets even where there is nothing to copy",
            vec![
                (1, file("f")),
                (1, file("g")),
                (1, copy(0, -1, 1, 0, 2)),
                (1, copy(0, -1, 1, 0, 0)),
                (1, copy(0, 0, 1, i64::MAX, 0)),
                (1, copy(0, 0, 0, i64::MIN, 0)),
            ],
        ),
        (
            "a file that is copied into itself does not grow under the copy",
            vec![
                (1, file("f")),
                (
                    1,
                    Op::Write {
                        fd: 0,
                        data: fill(4095),
                    },
                ),
                (1, copy(0, 0, 0, 4095, 9000)),
                (1, stat("f")),
            ],
        ),
        (
            "an empty file can be copied onto itself",
            vec![(1, file("f")), (1, copy(0, 0, 0, 0, 3))],
        ),
        (
            "truncating an empty file to zero moves its times only through a descriptor",
            vec![
                (1, file("f")),
                (1, old("f")),
                (1, truncate(0)),
                (1, stat("f")),
                (1, truncate(9)),
                (1, stat("f")),
                (1, old("f")),
                (1, truncate(9)),
                (1, stat("f")),
                (1, Op::TruncateFd { fd: 0, len: 9 }),
                (1, stat("f")),
                (1, Op::TruncateFd { fd: 0, len: 0 }),
                (1, old("f")),
                (1, open("f", O_RDWR | O_TRUNC, 0)),
                (1, stat("f")),
            ],
        ),
        (
            "appending ignores the offset",
            vec![
                (1, open("f", O_CREAT | O_RDWR | O_APPEND, 0o666)),
                (
                    1,
                    Op::Write {
                        fd: 0,
                        data: fill(5),
                    },
                ),
                (
                    1,
                    Op::WriteAt {
                        fd: 0,
                        data: fill(3),
                        offset: 0,
                    },
                ),
                (1, Op::Read { fd: 0, len: 9 }),
            ],
        ),
    ]
}
