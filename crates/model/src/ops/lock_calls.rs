//! flock and record locks, without waiting.

use libc::{EAGAIN, EBADF, EINVAL, EOVERFLOW, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};

use crate::data::MAX;
use crate::locks::Owner;
use crate::model::{Answer, Model};
use crate::op::{Fd, LockKind, LockSpec};
use crate::outcome::Outcome;

impl Model {
    pub(crate) fn flock(&mut self, p: usize, fd: Fd, op: i32) -> Answer {
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
        match exclusive {
            None => locks.unflock(file),
            Some(exclusive) if locks.flock(file, exclusive) => {}
            Some(_) => return Err(EAGAIN),
        }
        Ok(Outcome::Done)
    }

    pub(crate) fn set_lock(&mut self, p: usize, fd: Fd, lock: &LockSpec) -> Answer {
        let file = self.file(p, fd)?.clone();
        if self.size_is_free(p, fd, lock)? {
            return Ok(Outcome::Unspecified);
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
        let owner = self.lock_owner(p, fd, lock)?;
        let locks = self.locks.entry(file.node).or_default();
        let free = lock.kind == LockKind::Unlock
            || locks.conflicts(owner, lock.kind, start, end).is_empty();
        if !free {
            return Err(EAGAIN);
        }
        locks.set(owner, lock.kind, start, end);
        Ok(Outcome::Done)
    }

    pub(crate) fn get_lock(&mut self, p: usize, fd: Fd, lock: &LockSpec) -> Answer {
        let file = self.file(p, fd)?.clone();
        if lock.kind == LockKind::Unlock || self.size_is_free(p, fd, lock)? {
            // Asking who blocks an unlock is refused for one sort of locks and a query for locks
            // of this owner for the other, depending on the kernel.
            return Ok(Outcome::Unspecified);
        }
        let (start, end) = self.lock_range(p, fd, lock)?;
        let owner = self.lock_owner(p, fd, lock)?;
        let locks = self.locks.entry(file.node).or_default();
        Ok(Outcome::Locks(
            locks.conflicts(owner, lock.kind, start, end),
        ))
    }

    /// Size and positions of a directory are the system's affair, and so are ranges from there.
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

    /// The bytes meant, first and last.
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
