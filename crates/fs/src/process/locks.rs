//! flock, POSIX record locks, locks of open file descriptions.

use super::position::lock_position;
use super::{Fd, Process};
use crate::calls::Call;
use crate::errno::{Errno, Result};
use crate::locks::{Interrupt, LockKind, LockRequest};
use crate::ops::lock;
use crate::ops::open::OpenFile;
use hearth_sync::epoch::pin;
use hearth_sync::rcu::{Share, Shared};

/// A byte range to lock, as `struct flock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSpec {
    /// The kind of lock.
    pub kind: LockKind,
    /// Base of `start`: `SEEK_SET`, `SEEK_CUR` or `SEEK_END`.
    pub whence: i32,
    /// First byte, relative to `whence`.
    pub start: i64,
    /// Bytes; 0 means to the end of the file, however it grows; negative means before `start`.
    pub len: i64,
}

impl Process {
    /// `flock(2)`: `LOCK_SH`, `LOCK_EX` or `LOCK_UN`, with `LOCK_NB` to fail with `EAGAIN` instead
    /// of waiting.
    pub fn flock(&self, fd: Fd, operation: i32) -> Result<()> {
        self.flock_interruptible(fd, operation, &Interrupt::new())
    }

    /// [`Process::flock`] that another thread can end with `EINTR`.
    pub fn flock_interruptible(&self, fd: Fd, operation: i32, interrupt: &Interrupt) -> Result<()> {
        self.call(Call::Flock, || {
            let kind = match operation & !libc::LOCK_NB {
                libc::LOCK_SH => LockKind::Read,
                libc::LOCK_EX => LockKind::Write,
                libc::LOCK_UN => LockKind::Unlock,
                _ => return Err(Errno::EINVAL),
            };
            let request = |file: &OpenFile| LockRequest {
                owner: file.id(),
                pid: self.pid,
                kind,
                start: 0,
                end: LockRequest::EOF,
                flock: true,
            };
            if operation & libc::LOCK_NB != 0 || kind == LockKind::Unlock {
                // Without waiting the guard is enough to keep the open file, and it need not be
                // counted.
                let g = pin();
                return self.on(fd, &g, |file| {
                    check_opened(&file, kind)?;
                    lock::set(self.sb(), &file, &request(&file), None)
                });
            }
            self.with_counted(fd, |file| {
                check_opened(file, kind)?;
                lock::set(self.sb(), file, &request(file), Some(interrupt))
            })
        })
    }

    /// `fcntl(F_SETLK)`, or `F_SETLKW` if `wait` is given: locks of this process, released when any
    /// descriptor of the file is closed. `EAGAIN` for a conflict, `EDEADLK` where waiting would
    /// never end, `EINTR` if interrupted.
    pub fn set_lock(&self, fd: Fd, spec: &LockSpec, wait: Option<&Interrupt>) -> Result<()> {
        self.call(Call::SetLk, || match wait {
            // Without waiting the guard is enough to keep the open file, and it need not be
            // counted. A lock relative to the offset may wait for that, and nobody does so pinned.
            None if spec.whence != libc::SEEK_CUR => {
                let g = pin();
                let file = self.usable_file(fd, &g)?;
                self.set_own_lock(fd, &file, spec, None)
            }
            _ => self.set_own_lock(fd, &*self.counted(fd)?, spec, wait),
        })
    }

    fn set_own_lock(
        &self,
        fd: Fd,
        file: &OpenFile,
        spec: &LockSpec,
        wait: Option<&Interrupt>,
    ) -> Result<()> {
        let request = self.request(file, spec, self.lock_owner(), std::process::id())?;
        check_mode(file, spec.kind)?;
        let locks = file
            .inode(&pin())?
            .locks(&self.sb().file_locks.allowance)
            .clone();
        lock::set(self.sb(), file, &request, wait)?;
        // A close empties the descriptor and then releases the process's locks: a lock granted
        // after that is released here, as in Linux.
        let still_open = self
            .file(fd, &pin())
            .is_ok_and(|now| std::ptr::eq(now, file));
        if still_open || spec.kind == LockKind::Unlock {
            return Ok(());
        }
        locks.set(
            &LockRequest {
                kind: LockKind::Unlock,
                ..request
            },
            None,
        )?;
        Err(Errno::EBADF)
    }

    /// `fcntl(F_GETLK)`: the conflicting lock. `EINVAL` for an unlock, which conflicts with
    /// nothing.
    pub fn get_lock(&self, fd: Fd, spec: &LockSpec) -> Result<Option<LockRequest>> {
        self.call(Call::GetLk, || {
            self.with_counted(fd, |file| {
                if spec.kind == LockKind::Unlock {
                    return Err(Errno::EINVAL);
                }
                let owner = self.lock_owner();
                let request = self.request(file, spec, owner, std::process::id())?;
                lock::get(self.sb(), file, &request)
            })
        })
    }

    /// `fcntl(F_OFD_SETLK)` and `F_OFD_SETLKW`: locks of the open file description.
    pub fn set_ofd_lock(&self, fd: Fd, spec: &LockSpec, wait: Option<&Interrupt>) -> Result<()> {
        self.call(Call::SetLk, || {
            self.with_counted(fd, |file| {
                let request = self.request(file, spec, file.id(), LockRequest::OFD_PID)?;
                check_mode(file, spec.kind)?;
                lock::set(self.sb(), file, &request, wait)
            })
        })
    }

    /// `fcntl(F_OFD_GETLK)`.
    pub fn get_ofd_lock(&self, fd: Fd, spec: &LockSpec) -> Result<Option<LockRequest>> {
        self.call(Call::GetLk, || {
            self.with_counted(fd, |file| {
                let request = self.request(file, spec, file.id(), LockRequest::OFD_PID)?;
                lock::get(self.sb(), file, &request)
            })
        })
    }

    /// A reference that outlives a wait.
    pub(super) fn counted(&self, fd: Fd) -> Result<Share<OpenFile>> {
        self.usable_file(fd, &pin()).map(Shared::to_share)
    }

    fn request(
        &self,
        file: &OpenFile,
        spec: &LockSpec,
        owner: u64,
        pid: u32,
    ) -> Result<LockRequest> {
        let base = match spec.whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => *lock_position(file)?,
            libc::SEEK_END => file.inode(&pin())?.meta.size(),
            _ => return Err(Errno::EINVAL),
        };
        let start = i128::from(base) + i128::from(spec.start);
        let (first, last) = match spec.len {
            0 => (start, i128::from(u64::MAX)),
            len if len > 0 => (start, start + i128::from(len) - 1),
            len => (start + i128::from(len), start - 1),
        };
        let limit = i128::from(i64::MAX);
        if start > limit {
            return Err(Errno::EOVERFLOW);
        }
        if first < 0 {
            return Err(Errno::EINVAL);
        }
        if spec.len != 0 && last > limit {
            return Err(Errno::EOVERFLOW);
        }
        let (start, end) = (first as u64, last as u64);
        Ok(LockRequest {
            owner,
            pid,
            kind: spec.kind,
            start,
            end,
            flock: false,
        })
    }
}

/// `EBADF` for a flock on an `O_PATH` descriptor.
fn check_opened(file: &OpenFile, kind: LockKind) -> Result<()> {
    match kind {
        LockKind::Unlock => Ok(()),
        _ if file.readable() || file.writable() => Ok(()),
        _ => Err(Errno::EBADF),
    }
}

/// A read lock needs a file open for reading, a write lock one open for writing; a query needs
/// neither.
fn check_mode(file: &OpenFile, kind: LockKind) -> Result<()> {
    match kind {
        LockKind::Read if !file.readable() => Err(Errno::EBADF),
        LockKind::Write if !file.writable() => Err(Errno::EBADF),
        _ => Ok(()),
    }
}
