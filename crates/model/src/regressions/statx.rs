//! Reports of `statx`.

use libc::{AT_EMPTY_PATH, AT_STATX_DONT_SYNC, AT_STATX_FORCE_SYNC, AT_SYMLINK_NOFOLLOW};
use libc::{O_CREAT, O_PATH, STATX__RESERVED, STATX_BASIC_STATS, STATX_BTIME};

use super::script::Script;
use super::steps::{chmod, file, open, rename, symlink, times};
use crate::bytes::bytes;
use crate::op::{CWD, Fd, Op, SetTime};

const ALL: u32 = STATX_BASIC_STATS | STATX_BTIME;

/// The scripts.
pub fn scripts() -> Vec<Script> {
    vec![
        (
            "statx reports immutable, append-only and nodump, and no other inode flag",
            [0x10, 0x20, 0x40, 0x80, 0x60, 0]
                .into_iter()
                .flat_map(|flags| [(1, Op::SetFlags { fd: 0, flags }), (1, statx("f", 0, ALL))])
                .fold(vec![(1, file("f"))], |script, step| {
                    [script, vec![step]].concat()
                }),
        ),
        (
            "a file keeps its birth whatever becomes of it",
            vec![
                (1, open("f", O_CREAT, 0o666)),
                (1, statx("f", 0, STATX_BTIME)),
                (1, times("f", [SetTime::Omit, SetTime::At(5, 5)], 0)),
                (1, chmod("f", 0o600)),
                (1, rename("f", "g", 0)),
                // Without it a kernel in front may report cached values.
                (1, statx("g", AT_STATX_FORCE_SYNC, ALL)),
                (1, of_descriptor(0, 0, ALL)),
            ],
        ),
        (
            "statx of an empty path is the descriptor itself, also for a symbolic link and O_PATH",
            vec![
                (1, symlink("f", "l")),
                (1, open("l", O_PATH | libc::O_NOFOLLOW, 0)),
                (1, of_descriptor(0, 0, ALL)),
                (1, of_descriptor(CWD, 0, ALL)),
                (1, of_descriptor(9, 0, ALL)),
                (1, statx("", 0, ALL)),
                (1, statx("l", AT_SYMLINK_NOFOLLOW, ALL)),
                (1, statx("l", 0, ALL)),
            ],
        ),
        (
            "reserved masks and contradictory flags are refused before anything is checked",
            vec![
                (1, statx("none", 0, STATX__RESERVED as u32)),
                (
                    1,
                    statx("none", AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC, ALL),
                ),
                (1, statx("none", 1, ALL)),
                (1, of_descriptor(9, 0, STATX__RESERVED as u32 | ALL)),
                (1, statx("none", 0, ALL)),
                (1, statx("/", 0, 0)),
                (
                    1,
                    statx("/", AT_STATX_FORCE_SYNC, !(STATX__RESERVED as u32)),
                ),
            ],
        ),
    ]
}

fn statx(path: &str, flags: i32, mask: u32) -> Op {
    Op::StatX {
        dirfd: CWD,
        path: bytes(path),
        flags,
        mask,
    }
}

fn of_descriptor(dirfd: Fd, flags: i32, mask: u32) -> Op {
    Op::StatX {
        dirfd,
        path: bytes(""),
        flags: flags | AT_EMPTY_PATH,
        mask,
    }
}
