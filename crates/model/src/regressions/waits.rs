//! Lock requests that wait. Process 1 has the files `a` and `b` as descriptors 0 and 1. Process 3,
//! its child, has the same descriptions there, and `a` once more as descriptor 2.

use libc::{LOCK_EX, LOCK_SH, LOCK_UN, O_RDWR};

use super::steps::{chmod, file, open};
use crate::op::{Fd, LockKind, LockSpec, Op};
use crate::turn::Turn;

const READ: LockKind = LockKind::Read;
const WRITE: LockKind = LockKind::Write;
const UNLOCK: LockKind = LockKind::Unlock;

/// The fact, and the steps that show it.
pub fn scripts() -> Vec<(&'static str, Vec<Turn>)> {
    let all = [of_records(), of_deadlocks(), of_closed_files(), of_flocks()].concat();
    all.into_iter()
        .map(|(fact, turns)| (fact, [begin(), turns].concat()))
        .collect()
}

fn begin() -> Vec<Turn> {
    vec![
        Turn::Call(1, file("a")),
        Turn::Call(1, file("b")),
        Turn::Call(1, Op::Fork),
        Turn::Call(3, open("a", O_RDWR, 0)),
    ]
}

fn lock(fd: Fd, kind: LockKind, start: i64, len: i64) -> Op {
    let lock = LockSpec {
        ofd: false,
        kind,
        whence: libc::SEEK_SET,
        start,
        len,
    };
    Op::SetLock { fd, lock }
}

fn ofd(fd: Fd, kind: LockKind, start: i64, len: i64) -> Op {
    match lock(fd, kind, start, len) {
        Op::SetLock { fd, lock } => Op::SetLock {
            fd,
            lock: LockSpec { ofd: true, ..lock },
        },
        other => other,
    }
}

fn flock(fd: Fd, op: i32) -> Op {
    Op::Flock { fd, op }
}

fn of_records() -> Vec<(&'static str, Vec<Turn>)> {
    vec![
        (
            "a waiter gets its lock when the last conflicting one is released, first in first out",
            vec![
                Turn::Call(1, lock(0, WRITE, 0, 4)),
                Turn::Ask(3, lock(0, WRITE, 0, 2)),
                Turn::Ask(3, ofd(2, READ, 2, 2)),
                Turn::Ask(2, flock(0, LOCK_EX)),
                Turn::Call(1, lock(0, UNLOCK, 0, 1)),
                Turn::Call(1, lock(0, READ, 1, 3)),
                Turn::Call(1, lock(0, UNLOCK, 0, 0)),
            ],
        ),
        (
            "an interrupted request does not move those behind it",
            vec![
                Turn::Call(1, lock(0, WRITE, 0, 4)),
                Turn::Ask(3, lock(0, WRITE, 0, 4)),
                Turn::Ask(3, ofd(2, WRITE, 3, 1)),
                Turn::Interrupt(3),
                Turn::Call(1, lock(0, UNLOCK, 0, 4)),
            ],
        ),
    ]
}

fn of_deadlocks() -> Vec<(&'static str, Vec<Turn>)> {
    vec![
        (
            "a deadlock over two files is refused to the request that closes it",
            vec![
                Turn::Call(1, lock(0, WRITE, 0, 1)),
                Turn::Call(3, lock(1, WRITE, 0, 1)),
                Turn::Ask(1, lock(1, READ, 0, 1)),
                Turn::Ask(3, lock(0, READ, 0, 1)),
            ],
        ),
        (
            "two readers that both request a write lock deadlock, and the waiting one is granted",
            vec![
                Turn::Call(1, lock(0, READ, 0, 1)),
                Turn::Call(3, lock(0, READ, 0, 1)),
                Turn::Ask(1, lock(0, WRITE, 0, 1)),
                Turn::Ask(3, lock(0, WRITE, 0, 1)),
                Turn::Call(3, lock(0, UNLOCK, 0, 1)),
            ],
        ),
        (
            "a request granted by a change is no part of a deadlock any more",
            vec![
                Turn::Call(1, lock(0, WRITE, 1, 2)),
                Turn::Call(3, ofd(2, READ, 3, 1)),
                Turn::Ask(3, lock(0, READ, 1, 2)),
                Turn::Ask(1, lock(0, WRITE, 0, 4)),
                Turn::Ask(3, lock(0, READ, 0, 2)),
                Turn::Call(1, lock(0, UNLOCK, 0, 0)),
            ],
        ),
        (
            "in a deadlock that a new lock closes the waiting request is refused",
            vec![
                Turn::Call(1, lock(0, READ, 0, 1)),
                Turn::Call(3, ofd(2, READ, 0, 1)),
                Turn::Ask(3, lock(0, WRITE, 0, 1)),
                Turn::Ask(1, lock(0, WRITE, 0, 1)),
                Turn::Ask(3, lock(0, READ, 0, 1)),
            ],
        ),
        (
            "locks of descriptions may deadlock",
            vec![
                Turn::Call(3, ofd(0, READ, 0, 1)),
                Turn::Call(3, ofd(2, READ, 0, 1)),
                Turn::Ask(3, ofd(0, WRITE, 0, 1)),
                Turn::Ask(3, ofd(2, WRITE, 0, 1)),
            ],
        ),
    ]
}

fn of_closed_files() -> Vec<(&'static str, Vec<Turn>)> {
    vec![
        (
            "closing any descriptor of the file admits requests that wait for its process",
            vec![
                Turn::Call(3, lock(0, WRITE, 0, 0)),
                Turn::Ask(1, lock(0, WRITE, 7, 1)),
                Turn::Call(3, Op::Close { fd: 2 }),
            ],
        ),
        (
            "a lock granted through a descriptor closed meanwhile is released",
            vec![
                Turn::Call(1, lock(0, WRITE, 0, 4)),
                Turn::Ask(3, lock(0, WRITE, 0, 4)),
                Turn::Ask(3, ofd(2, WRITE, 0, 4)),
                Turn::Call(3, Op::Close { fd: 0 }),
                Turn::Call(1, lock(0, UNLOCK, 0, 4)),
            ],
        ),
        (
            "a lock released while its description ends leaves the next holder open",
            vec![
                Turn::Call(1, chmod("b", 0o666)),
                Turn::Call(2, open("b", O_RDWR, 0)),
                Turn::Call(3, lock(1, READ, 1, 0)),
                Turn::Ask(2, lock(0, WRITE, 3, 4)),
                Turn::Call(1, ofd(1, READ, 0, 4)),
                Turn::Ask(1, lock(1, WRITE, 3, 0)),
                Turn::Ask(1, lock(1, WRITE, 4, 1)),
                Turn::Call(1, Op::Close { fd: 1 }),
                Turn::Call(3, Op::Close { fd: 1 }),
            ],
        ),
        (
            "the end of a process admits every request that waits for it",
            vec![
                Turn::Call(3, lock(0, WRITE, 0, 4)),
                Turn::Call(3, flock(2, LOCK_EX)),
                Turn::Ask(1, lock(0, WRITE, 0, 4)),
                Turn::Ask(1, flock(0, LOCK_SH)),
                Turn::Call(3, Op::Exit),
            ],
        ),
    ]
}

fn of_flocks() -> Vec<(&'static str, Vec<Turn>)> {
    vec![
        (
            "a request for a stronger flock has released the weaker one",
            vec![
                Turn::Call(1, flock(0, LOCK_SH)),
                Turn::Call(3, flock(2, LOCK_SH)),
                Turn::Ask(1, flock(0, LOCK_EX)),
                Turn::Call(3, flock(2, LOCK_EX | libc::LOCK_NB)),
                Turn::Call(3, flock(2, LOCK_UN)),
            ],
        ),
        (
            "waiting readers of a file are granted together",
            vec![
                Turn::Call(1, flock(0, LOCK_EX)),
                Turn::Ask(3, flock(2, LOCK_SH)),
                Turn::Call(3, open("a", O_RDWR, 0)),
                Turn::Ask(3, flock(3, LOCK_SH)),
                Turn::Call(3, flock(0, LOCK_UN)),
            ],
        ),
    ]
}
