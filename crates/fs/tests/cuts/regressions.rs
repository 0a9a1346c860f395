//! Scripts that found a fault once.

use super::cuts;
use super::faults::faults;
use super::script::Step;
use hearth_model::{CWD, Fill, Op, bytes};

fn open(path: &str) -> Step {
    let op = Op::Open {
        dirfd: CWD,
        path: bytes(path),
        flags: libc::O_CREAT | libc::O_RDWR,
        mode: 0o644,
    };
    Step::Call(1, op)
}

/// `fsck` took the map of a file without extents, which is none, for a number in use.
#[test]
fn a_size_without_data_needs_no_number_of_a_map() {
    let truncate = Op::Truncate {
        path: bytes("a"),
        len: 4095,
    };
    let steps = [open("a"), Step::Call(1, truncate), Step::Sync];
    cuts(1, &steps).unwrap();
}

/// What was written behind the durable end and then moved by a collapse is not there after a cut:
/// the size is that of the last write-back, less what was collapsed. The checker took it for one
/// that the file never had, where a disk that failed kept the write from going.
#[test]
fn a_collapse_behind_an_unwritten_end_leaves_the_end_out() {
    let write = |seed, len, offset| {
        let data = Fill { seed, len };
        Step::Call(
            1,
            Op::WriteAt {
                fd: 0,
                data,
                offset,
            },
        )
    };
    let collapse = Op::Allocate {
        fd: 0,
        mode: libc::FALLOC_FL_COLLAPSE_RANGE,
        offset: 12_288,
        len: 16_384,
    };
    let other = Op::Sync {
        fd: 1,
        data_only: true,
    };
    let steps = [
        open("b"),
        write(110, 102_259, 11_137),
        Step::Sync,
        write(5, 88_367, 27_297),
        open("a"),
        Step::Call(1, collapse),
        Step::Call(1, other),
    ];
    cuts(1, &steps).unwrap();
    for seed in 1..8 {
        faults(seed, &steps).unwrap();
    }
}
