//! The arguments of calls in bytes, shared by the model and the library.

use super::operation::{Name, Operation, Place};
use hearth_model::{Fd, LockKind};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Bytes that a call reads or writes. 256 calls in series stay in one page.
pub const CHUNK: usize = 16;
/// The extended attribute that every file has.
pub const XATTR: &str = "user.case";
/// Target descriptors of `dup2`.
pub const DUP2_TARGETS: [Fd; 2] = [1000, 1001];

/// Returns the path of a place, or of its stand-in for the `i`-th repetition.
pub fn path(place: Place, i: usize) -> String {
    let dir = place.dir.path();
    match (place.name, i) {
        (Name::Itself, _) => dir.to_owned(),
        (name, 0) => format!("{dir}/{}", name.letter()),
        (name, i) => format!("{dir}/{}{i}", name.letter()),
    }
}

/// Returns the new size of a file of two pages.
pub fn length(op: &Operation) -> u64 {
    [1, 4][usize::from(op.choice)] * PAGE
}

/// Returns the mode that `chmod` sets: a directory can still be walked through.
pub fn mode(op: &Operation) -> u32 {
    let search = match op.on.name {
        Name::Empty | Name::Empty2 | Name::Sub | Name::Itself => 0o110,
        _ => 0,
    };
    [0o600, 0o640][usize::from(op.value)] | search
}

/// Returns the flags of `open`: a directory can only be read.
pub fn flags(op: &Operation) -> i32 {
    match op.on.name {
        Name::Empty | Name::Empty2 => libc::O_RDONLY,
        _ => libc::O_RDWR,
    }
}

/// Returns the operation of `flock`.
pub fn lock(op: &Operation) -> i32 {
    [libc::LOCK_SH, libc::LOCK_EX, libc::LOCK_UN][usize::from(op.choice)] | libc::LOCK_NB
}

/// Returns the type of a record lock, and the first byte of its page.
pub fn record(op: &Operation) -> (LockKind, u64) {
    match op.choice {
        0 => (LockKind::Read, 0),
        1 => (LockKind::Write, 0),
        2 => (LockKind::Unlock, 0),
        _ => (LockKind::Write, PAGE),
    }
}

/// Returns the seconds that `utimensat` sets the modification time to.
pub fn modified(op: &Operation) -> i64 {
    1_100 + i64::from(op.value)
}
