//! Calls on descriptors: dup, fcntl and the like.

use super::{Fd, Process};
use crate::calls::Call;
use crate::errno::Result;
use crate::fdtable::Closed;
use crate::ops::open::OpenFile;
use hearth_sync::epoch::{Guard, pin};

/// Status flags that `F_SETFL` may change.
const CHANGEABLE: i32 = libc::O_APPEND | libc::O_DIRECT | libc::O_NOATIME | libc::O_NONBLOCK;

impl Process {
    /// `dup(2)`.
    pub fn dup(&self, fd: Fd) -> Result<Fd> {
        self.call(Call::Dup, || self.files.dup(fd))
    }

    /// `dup2(2)`.
    pub fn dup2(&self, old: Fd, new: Fd) -> Result<Fd> {
        self.call(Call::Dup2, || {
            let g = pin();
            let replaced = self.files.dup2(old, new, &g)?;
            self.replaced(replaced, &g);
            Ok(new)
        })
    }

    /// `dup3(2)`; `flags` may have `O_CLOEXEC`.
    pub fn dup3(&self, old: Fd, new: Fd, flags: i32) -> Result<Fd> {
        self.call(Call::Dup3, || {
            if flags & !libc::O_CLOEXEC != 0 {
                return Err(crate::Errno::EINVAL);
            }
            let g = pin();
            let cloexec = flags & libc::O_CLOEXEC != 0;
            let replaced = self.files.dup3(old, new, cloexec, &g)?;
            self.replaced(replaced, &g);
            Ok(new)
        })
    }

    /// `fcntl(F_DUPFD)` and `F_DUPFD_CLOEXEC`: the lowest free descriptor from `min` on.
    pub fn dupfd(&self, fd: Fd, min: Fd, cloexec: bool) -> Result<Fd> {
        self.call(Call::Fcntl, || self.files.dupfd(fd, min, cloexec))
    }

    /// `fcntl(F_GETFD)`: whether the descriptor is closed by exec.
    pub fn cloexec(&self, fd: Fd) -> Result<bool> {
        self.call(Call::Fcntl, || self.files.is_cloexec(fd))
    }

    /// `fcntl(F_SETFD)`.
    pub fn set_cloexec(&self, fd: Fd, cloexec: bool) -> Result<()> {
        self.call(Call::Fcntl, || self.files.set_cloexec(fd, cloexec))
    }

    /// `fcntl(F_GETFL)`.
    pub fn status_flags(&self, fd: Fd) -> Result<i32> {
        self.call(Call::Fcntl, || {
            let g = pin();
            Ok(self.file(fd, &g)?.flags())
        })
    }

    /// `fcntl(F_SETFL)`: access mode and creation flags are ignored. `EPERM` to clear `O_APPEND` of
    /// an append-only file, or to set `O_NOATIME` on another user's; `EINVAL` for `O_DIRECT` on a
    /// directory.
    pub fn set_status_flags(&self, fd: Fd, flags: i32) -> Result<()> {
        self.call(Call::Fcntl, || {
            self.run_on(fd, |cx, file, g| {
                let inode = file.inode(g)?;
                let old = file.flags();
                let append_only = inode.meta.flags() & crate::flags::APPEND != 0;
                if append_only && (old ^ flags) & libc::O_APPEND != 0 {
                    return Err(crate::Errno::EPERM.into());
                }
                if flags & !old & libc::O_NOATIME != 0 {
                    crate::ops::perm::may_own(cx.caller, &inode.meta.owner())?;
                }
                if flags & libc::O_DIRECT != 0 && inode.is_dir() {
                    return Err(crate::Errno::EINVAL.into());
                }
                file.set_flags(old & !CHANGEABLE | flags & CHANGEABLE);
                Ok(())
            })
        })
    }

    /// What `execve(2)` does to descriptors: those marked close-on-exec are closed.
    pub fn close_on_exec(&self) {
        self.count(Call::Execve);
        let g = pin();
        self.files
            .close_on_exec(&g)
            .into_iter()
            .for_each(|closed| self.closed(closed, &g));
    }

    /// The open descriptors, ascending.
    pub fn open_fds(&self) -> Vec<Fd> {
        self.files.open_fds()
    }

    fn replaced(&self, closed: Option<Closed<'_, OpenFile>>, g: &Guard) {
        if let Some(closed) = closed {
            self.closed(closed, g);
        }
    }
}
