//! Holes that reach beyond the end of a file. ext4 frees the last page, where tmpfs only clears it,
//! and keeps what was preallocated behind it.

use libc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, SEEK_DATA, SEEK_HOLE};

use super::script::Script;
use super::steps::file;
use crate::op::{Fill, Op};

/// The scripts. They need a filesystem that can make holes.
pub fn scripts() -> Vec<Script> {
    let fill = |len| Fill { seed: 1, len };
    let allocate = |mode, offset, len| Op::Allocate {
        fd: 0,
        mode: mode | FALLOC_FL_KEEP_SIZE,
        offset,
        len,
    };
    let seek = |offset, whence| Op::Seek {
        fd: 0,
        offset,
        whence,
    };
    let write = |len, offset| Op::WriteAt {
        fd: 0,
        data: fill(len),
        offset,
    };
    let by_root = |steps: Vec<Op>| steps.into_iter().map(|op| (1, op)).collect();
    vec![
        (
            "a hole that reaches beyond the end may take the last page along",
            by_root(vec![
                file("f"),
                write(3829, 65_804),
                Op::Sync {
                    fd: 0,
                    data_only: false,
                },
                allocate(FALLOC_FL_PUNCH_HOLE, 19_075, 50_559),
                seek(0, SEEK_DATA),
            ]),
        ),
        (
            "a hole beyond the end may leave what was preallocated there",
            by_root(vec![
                file("f"),
                allocate(0, 16_384, 24_576),
                allocate(FALLOC_FL_PUNCH_HOLE, 0, 40_960),
                write(12_288, 16_385),
                Op::TruncateFd { fd: 0, len: 36_865 },
                Op::ReadAt {
                    fd: 0,
                    len: 1,
                    offset: 32_768,
                },
                seek(16_384, SEEK_HOLE),
            ]),
        ),
    ]
}
