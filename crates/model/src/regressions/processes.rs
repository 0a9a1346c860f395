//! Roots and locks.

use libc::{O_CREAT, O_PATH, O_RDWR};

use super::script::Script;
use super::steps::{chmod, file, open};
use crate::bytes::bytes;
use crate::op::{Fill, LockKind, LockSpec, Op};

/// The scripts.
pub fn scripts() -> Vec<Script> {
    let lock = |kind, whence, start, len| LockSpec {
        ofd: false,
        kind,
        whence,
        start,
        len,
    };
    vec![
        (
            "chroot checks search permission before the privilege",
            vec![
                (1, chmod("/", 0o666)),
                (2, Op::ChangeRoot { path: bytes("/") }),
            ],
        ),
        (
            "querying a lock needs no access mode",
            vec![
                (1, open("f", O_CREAT, 0o666)),
                (
                    1,
                    Op::GetLock {
                        fd: 0,
                        lock: lock(LockKind::Write, 0, 4, 9),
                    },
                ),
                (
                    1,
                    Op::SetLock {
                        fd: 0,
                        lock: lock(LockKind::Write, 0, 4, 9),
                    },
                ),
            ],
        ),
        (
            "a lock that starts behind the last offset is EOVERFLOW, even if it reaches back",
            vec![
                (1, file("f")),
                (
                    1,
                    Op::Write {
                        fd: 0,
                        data: Fill { seed: 1, len: 1 },
                    },
                ),
                (
                    1,
                    Op::GetLock {
                        fd: 0,
                        lock: lock(LockKind::Read, 2, i64::MAX, -6),
                    },
                ),
            ],
        ),
        (
            "flock releases the old lock before it fails to get the new one",
            vec![
                (1, file("f")),
                (1, file("f")),
                (1, file("f")),
                (
                    1,
                    Op::Flock {
                        fd: 0,
                        op: libc::LOCK_SH | libc::LOCK_NB,
                    },
                ),
                (
                    1,
                    Op::Flock {
                        fd: 1,
                        op: libc::LOCK_SH | libc::LOCK_NB,
                    },
                ),
                (
                    1,
                    Op::Flock {
                        fd: 0,
                        op: libc::LOCK_EX | libc::LOCK_NB,
                    },
                ),
                (
                    1,
                    Op::Flock {
                        fd: 1,
                        op: libc::LOCK_UN,
                    },
                ),
                (
                    1,
                    Op::Flock {
                        fd: 2,
                        op: libc::LOCK_EX | libc::LOCK_NB,
                    },
                ),
            ],
        ),
        (
            "any close ends the record locks of the process",
            vec![
                (1, file("f")),
                (1, file("f")),
                (2, open("f", O_RDWR, 0)),
                (1, chmod("f", 0o666)),
                (2, open("f", O_RDWR, 0)),
                (
                    1,
                    Op::SetLock {
                        fd: 0,
                        lock: lock(LockKind::Write, 0, 0, 0),
                    },
                ),
                (
                    2,
                    Op::GetLock {
                        fd: 0,
                        lock: lock(LockKind::Write, 0, 3, 1),
                    },
                ),
                (1, Op::Close { fd: 1 }),
                (
                    2,
                    Op::GetLock {
                        fd: 0,
                        lock: lock(LockKind::Write, 0, 3, 1),
                    },
                ),
            ],
        ),
        (
            "closing an O_PATH descriptor ends no locks",
            vec![
                (1, file("f")),
                (1, chmod("f", 0o666)),
                (1, open("f", O_PATH, 0)),
                (2, open("f", O_RDWR, 0)),
                (
                    1,
                    Op::SetLock {
                        fd: 0,
                        lock: lock(LockKind::Write, 0, 0, 0),
                    },
                ),
                (1, Op::Close { fd: 1 }),
                (
                    2,
                    Op::GetLock {
                        fd: 0,
                        lock: lock(LockKind::Write, 0, 3, 1),
                    },
                ),
            ],
        ),
    ]
}
