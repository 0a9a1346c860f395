//! Random scripts of lock requests that wait: two files, few bytes, a handful of processes, so that
//! requests meet.

use std::ops::Range;

use libc::{LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, O_CREAT, O_RDONLY, O_RDWR};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::bytes::bytes;
use crate::model::Model;
use crate::op::{CWD, Fd, LockKind, LockSpec, Op};
use crate::system::{OBSERVER, PROCESSES};
use crate::turn::Turn;

/// Requests that wait at a time: each has a thread.
const MOST: usize = 8;

/// A random step that is not aimed yet.
#[derive(Debug, Clone)]
struct WaitDraw {
    /// Picks a living process.
    process: u8,
    /// Picks one of its descriptors.
    fd: u8,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Call(Op),
    Ask(Op),
    Interrupt,
}

/// Scripts of about `len` steps.
pub fn waiting_script(len: Range<usize>) -> impl Strategy<Value = Vec<Turn>> {
    vec(draw(), len).prop_map(|draws| {
        let mut model = Model::new();
        for (uid, gid, groups) in PROCESSES {
            model.add_process(uid, gid, groups);
        }
        let mut turns = Vec::new();
        for turn in opening() {
            follow(&mut model, &turn);
            turns.push(turn);
        }
        for draw in draws {
            let Some(turn) = aim(&model, draw) else { break };
            follow(&mut model, &turn);
            turns.push(turn);
        }
        turns
    })
}

/// Two files for all users, three processes, and descriptors of both in each.
fn opening() -> Vec<Turn> {
    let root = Op::Chmod {
        dirfd: CWD,
        path: bytes("/"),
        mode: 0o777,
        flags: 0,
    };
    let open = |p, path| Turn::Call(p, open(path, O_CREAT | O_RDWR));
    vec![
        Turn::Call(1, root),
        Turn::Call(1, Op::Umask { mask: 0 }),
        open(1, "a"),
        open(1, "b"),
        open(2, "a"),
        open(2, "b"),
        Turn::Call(1, Op::Fork),
        open(3, "a"),
    ]
}

fn open(path: &str, flags: i32) -> Op {
    Op::Open {
        dirfd: CWD,
        path: bytes(path),
        flags,
        mode: 0o666,
    }
}

fn draw() -> impl Strategy<Value = WaitDraw> {
    let fd: Fd = 0;
    let flock = || select(vec![LOCK_SH, LOCK_EX, LOCK_EX, LOCK_UN]);
    let what = prop_oneof![
        10 => record().prop_map(move |lock| What::Ask(Op::SetLock { fd, lock })),
        5 => flock().prop_map(move |op| What::Ask(Op::Flock { fd, op })),
        3 => record().prop_map(move |lock| What::Call(Op::SetLock { fd, lock })),
        3 => record().prop_map(move |lock| What::Call(Op::SetLock {
            fd,
            lock: LockSpec { kind: LockKind::Unlock, ..lock },
        })),
        2 => flock().prop_map(move |op| What::Call(Op::Flock { fd, op: op | LOCK_NB })),
        2 => record().prop_map(move |lock| What::Call(Op::GetLock { fd, lock })),
        6 => Just(What::Call(unlock_all())),
        1 => Just(What::Interrupt),
        1 => select(vec!["a", "b"])
            .prop_flat_map(|path| select(vec![O_RDWR, O_RDWR, O_RDONLY])
                .prop_map(move |flags| What::Call(open(path, flags)))),
        1 => Just(What::Call(Op::Dup { fd })),
        1 => (0..4).prop_map(move |to| What::Call(Op::Dup2 { fd, to })),
        3 => Just(What::Call(Op::Close { fd })),
        1 => prop_oneof![Just(What::Call(Op::Fork)), Just(What::Call(Op::Exit))],
    ];
    (any::<u8>(), any::<u8>(), what).prop_map(|(process, fd, what)| WaitDraw { process, fd, what })
}

/// Releases all locks of a process in a file.
fn unlock_all() -> Op {
    let lock = LockSpec {
        ofd: false,
        kind: LockKind::Unlock,
        whence: libc::SEEK_SET,
        start: 0,
        len: 0,
    };
    Op::SetLock { fd: 0, lock }
}

fn record() -> impl Strategy<Value = LockSpec> {
    let kind = select(vec![LockKind::Read, LockKind::Write, LockKind::Write]);
    let len = select(vec![1i64, 1, 2, 4, 0]);
    (prop::bool::weighted(0.3), kind, 0i64..5, len).prop_map(|(ofd, kind, start, len)| LockSpec {
        ofd,
        kind,
        whence: libc::SEEK_SET,
        start,
        len,
    })
}

/// Gives a step a living process and an open descriptor; returns `None` if no process lives.
fn aim(model: &Model, draw: WaitDraw) -> Option<Turn> {
    let lives = |p: &usize| *p != OBSERVER && model.processes[*p].is_some();
    let living: Vec<usize> = (0..model.processes.len()).filter(lives).collect();
    let p = *living.get(usize::from(draw.process) % living.len().max(1))?;
    let aimed = |mut op: Op| {
        if let Op::SetLock { fd, .. }
        | Op::GetLock { fd, .. }
        | Op::Flock { fd, .. }
        | Op::Dup { fd }
        | Op::Dup2 { fd, .. }
        | Op::Close { fd } = &mut op
        {
            let open: Vec<Fd> = model.process(p).fds.keys().copied().collect();
            // Sometimes one that is not open.
            let pick = usize::from(draw.fd) % (open.len() * 8 + 1);
            *fd = open.get(pick / 8).copied().unwrap_or(77);
        }
        op
    };
    Some(match draw.what {
        What::Call(op) => Turn::Call(p, aimed(op)),
        What::Ask(op) if model.waiting_locks.len() < MOST => Turn::Ask(p, aimed(op)),
        What::Ask(_) => Turn::Call(p, aimed(unlock_all())),
        // A process that waits.
        What::Interrupt => {
            let who: Vec<usize> = model.waiting().map(|(_, process)| process).collect();
            let pick = usize::from(draw.fd) % who.len().max(1);
            Turn::Interrupt(who.get(pick).copied().unwrap_or(p))
        }
    })
}

fn follow(model: &mut Model, turn: &Turn) {
    match turn {
        Turn::Call(p, op) => _ = model.apply(*p, op),
        Turn::Ask(p, op) => _ = model.ask(*p, op),
        Turn::Interrupt(p) => {
            let oldest = model.waiting().find(|(_, process)| process == p);
            if let Some((ticket, _)) = oldest {
                model.interrupt(ticket);
            }
        }
    }
}
