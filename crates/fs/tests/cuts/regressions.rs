//! Scripts that found a fault once.

use super::cuts;
use super::script::Step;
use hearth_model::{CWD, Op, bytes};

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
