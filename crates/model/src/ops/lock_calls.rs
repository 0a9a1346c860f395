//! flock and record locks.

use libc::{EAGAIN, EBADF, EDEADLK, EINVAL, EOVERFLOW, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};

use crate::data::MAX;
use crate::locks::{Owner, Wish};
use crate::model::{Answer, FREE, Model};
use crate::node::NodeId;
use crate::op::{Fd, LockKind, LockSpec, Op};
use crate::outcome::Outcome;
use crate::waiting_lock::WaitingLock;

/// What to do with a request that cannot be granted at once.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Else {
    Refuse,
    Park,
}

impl Model {
    /// Applies a lock call that may wait: `flock` without `LOCK_NB`, `F_SETLKW` or `F_OFD_SETLKW`.
    /// Returns `None` if it waits now; [`Model::ended`] later returns its result, under the number
    /// that [`Model::waiting`] names last.
    pub fn ask(&mut self, p: usize, op: &Op) -> Option<Outcome> {
        if self.processes.get(p).is_none_or(Option::is_none) {
            return Some(Outcome::Unspecified);
        }
        let before = self.clone();
        let done = match op {
            Op::Flock { fd, op } => self.flock_or(p, *fd, *op, Else::Park),
            Op::SetLock { fd, lock } => self.set_lock_or(p, *fd, lock, Else::Park),
            _ => Err(FREE),
        };
        match done {
            Ok(outcome) => outcome,
            Err(FREE) => {
                *self = before;
                Some(Outcome::Unspecified)
            }
            Err(errno) => Some(Outcome::Error(errno)),
        }
    }

    pub(crate) fn flock(&mut self, p: usize, fd: Fd, op: i32) -> Answer {
        self.flock_or(p, fd, op, Else::Refuse)
            .map(|outcome| outcome.unwrap_or(Outcome::Done))
    }

    pub(crate) fn set_lock(&mut self, p: usize, fd: Fd, lock: &LockSpec) -> Answer {
        self.set_lock_or(p, fd, lock, Else::Refuse)
            .map(|outcome| outcome.unwrap_or(Outcome::Done))
    }

    fn flock_or(&mut self, p: usize, fd: Fd, op: i32, or: Else) -> Answer<Option<Outcome>> {
        let exclusive = match op & !LOCK_NB {
            LOCK_SH => Some(false),
            LOCK_EX => Some(true),
            LOCK_UN => None,
            _ => return Err(EINVAL),
        };
        let opened = self.file(p, fd)?;
        if exclusive.is_some() && !opened.readable() && !opened.writable() {
            return Err(EBADF);
        }
        let node = opened.node;
        let file = self.slot(p, fd)?.file;
        let locks = self.locks.entry(node).or_default();
        let Some(exclusive) = exclusive else {
            locks.unflock(file);
            self.decide_waiting(node);
            return Ok(Some(Outcome::Done));
        };
        if locks.has_flock(file, exclusive) {
            return Ok(Some(Outcome::Done));
        }
        // A change of mode releases the old lock before it requests the new one, as in Linux.
        locks.unflock(file);
        self.request((p, fd), node, Wish::Whole { file, exclusive }, or)
    }

    fn set_lock_or(
        &mut self,
        p: usize,
        fd: Fd,
        lock: &LockSpec,
        or: Else,
    ) -> Answer<Option<Outcome>> {
        let file = self.file(p, fd)?.clone();
        if self.size_is_free(p, fd, lock)? {
            return Err(FREE);
        }
        let (start, end) = self.lock_range(p, fd, lock)?;
        let allowed = match lock.kind {
            LockKind::Read => file.readable(),
            LockKind::Write => file.writable(),
            LockKind::Unlock => true,
        };
        if !allowed {
            return Err(EBADF);
        }
        let wish = Wish::Record {
            owner: self.lock_owner(p, fd, lock)?,
            kind: lock.kind,
            start,
            end,
        };
        self.request((p, fd), file.node, wish, or)
    }

    /// Grants, refuses or parks the request, and decides the waiting ones: a lock may have been
    /// released.
    fn request(
        &mut self,
        (p, fd): (usize, Fd),
        node: NodeId,
        wish: Wish,
        or: Else,
    ) -> Answer<Option<Outcome>> {
        let file = self.slot(p, fd)?.file;
        let locks = self.locks.entry(node).or_default();
        let done = if locks.is_free(wish) {
            locks.grant(wish);
            Ok(Some(Outcome::Done))
        } else if or == Else::Refuse {
            Err(EAGAIN)
        } else {
            let ticket = self.number();
            let parked = WaitingLock {
                ticket,
                process: p,
                fd,
                file,
                node,
                wish,
            };
            match self.would_wait_for_itself(&parked) {
                true => Err(EDEADLK),
                false => {
                    self.waiting_locks.push(parked);
                    Ok(None)
                }
            }
        };
        self.decide_waiting(node);
        done
    }

    pub(crate) fn get_lock(&mut self, p: usize, fd: Fd, lock: &LockSpec) -> Answer {
        let file = self.file(p, fd)?.clone();
        if lock.kind == LockKind::Unlock || self.size_is_free(p, fd, lock)? {
            // Querying for an unlock is refused for one sort of locks, and querying for locks of
            // this owner for the other, depending on the kernel.
            return Ok(Outcome::Unspecified);
        }
        let (start, end) = self.lock_range(p, fd, lock)?;
        let owner = self.lock_owner(p, fd, lock)?;
        let locks = self.locks.entry(file.node).or_default();
        Ok(Outcome::Locks(
            locks.conflicts(owner, lock.kind, start, end),
        ))
    }

    /// Size and positions of a directory are up to the system, and so are ranges from there.
    fn size_is_free(&self, p: usize, fd: Fd, lock: &LockSpec) -> Answer<bool> {
        let node = self.file(p, fd)?.node;
        Ok(lock.whence != libc::SEEK_SET && self.node(node).pages().is_none())
    }

    fn lock_owner(&self, p: usize, fd: Fd, lock: &LockSpec) -> Answer<Owner> {
        Ok(if lock.ofd {
            Owner::File(self.slot(p, fd)?.file)
        } else {
            Owner::Process(p)
        })
    }

    /// Returns the range, first and last byte.
    fn lock_range(&self, p: usize, fd: Fd, lock: &LockSpec) -> Answer<(u64, u64)> {
        let file = self.file(p, fd)?;
        let base = match lock.whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => file.offset as i64,
            libc::SEEK_END => self
                .node(file.node)
                .pages()
                .map_or(0, |pages| pages.size() as i64),
            _ => return Err(EINVAL),
        };
        let start = base.checked_add(lock.start).ok_or(EOVERFLOW)?;
        let (start, end) = match lock.len {
            0 => (start, MAX as i64),
            len if len > 0 => {
                if start < 0 {
                    return Err(EINVAL);
                }
                (start, start.checked_add(len - 1).ok_or(EOVERFLOW)?)
            }
            len => (start.checked_add(len).ok_or(EINVAL)?, start - 1),
        };
        if start < 0 {
            return Err(EINVAL);
        }
        Ok((start as u64, end as u64))
    }
}
