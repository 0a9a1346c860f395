//! stat, chmod, chown, times, access, flags, statfs.

use super::{AT_FDCWD, Fd, Process};
use crate::attr::{Attr, FsXAttr, Kind, SetAttr, SetTime, StatFs, StatX};
use crate::calls::Call;
use crate::errno::{Errno, Result};
use crate::inode::{Inode, InodeExt};
use crate::number::is_control;
use crate::ops::ctx::Ctx;
use crate::ops::{attr, ioctl, perm, statfs};
use crate::superblock::Attempt;
use crate::walk::Follow;
use hearth_sync::epoch::Guard;

impl Process {
    /// `stat(2)`.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Attr> {
        self.statat(AT_FDCWD, path, 0)
    }

    /// `lstat(2)`.
    pub fn lstat(&self, path: impl AsRef<[u8]>) -> Result<Attr> {
        self.statat(AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW)
    }

    /// `fstat(2)`.
    pub fn fstat(&self, fd: Fd) -> Result<Attr> {
        self.attributes(Call::Fstat, |attr| {
            self.run(|_, g| {
                self.any_inode_of(fd, g)?.attr_into(attr);
                Ok(())
            })
        })
    }

    /// `fstatat(2)`, with `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`. `AT_NO_AUTOMOUNT` is accepted
    /// here and by `statx(2)` only.
    pub fn statat(&self, dirfd: Fd, path: impl AsRef<[u8]>, flags: i32) -> Result<Attr> {
        let flags = flags & !libc::AT_NO_AUTOMOUNT;
        self.attributes(Call::Fstatat, |attr| {
            self.target(dirfd, path.as_ref(), flags, |_, inode, _| {
                inode.attr_into(attr);
                Ok(())
            })
        })
    }

    /// `statx(2)`, with `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`. The result does not depend on
    /// `mask`.
    pub fn statx(&self, dirfd: Fd, path: impl AsRef<[u8]>, flags: i32, mask: u32) -> Result<StatX> {
        self.call(Call::Statx, || {
            let sync = libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;
            if mask & libc::STATX__RESERVED as u32 != 0 || flags & sync == sync {
                return Err(Errno::EINVAL);
            }
            let flags = flags & !(sync | libc::AT_NO_AUTOMOUNT);
            self.target(dirfd, path.as_ref(), flags, |_, inode, _| {
                Ok(StatX::of(inode.attr()))
            })
        })
    }

    /// `access(2)`: a process has no real ids apart from its effective ones.
    pub fn access(&self, path: impl AsRef<[u8]>, mask: u32) -> Result<()> {
        self.faccessat(AT_FDCWD, path, mask, 0)
    }

    /// `faccessat2(2)`.
    pub fn faccessat(
        &self,
        dirfd: Fd,
        path: impl AsRef<[u8]>,
        mask: u32,
        flags: i32,
    ) -> Result<()> {
        self.call(Call::Faccessat, || {
            if mask & !7 != 0 {
                return Err(Errno::EINVAL);
            }
            let flags = flags & !libc::AT_EACCESS;
            self.target(dirfd, path.as_ref(), flags, |cx, inode, g| {
                let stored = matches!(inode.kind(), Kind::File | Kind::Directory | Kind::Symlink);
                if mask & perm::WRITE != 0 && stored && !is_control(inode.number()) {
                    cx.sb.check_writable()?;
                }
                let owner = inode.meta.owner();
                if mask & perm::WRITE != 0 && owner.flags & crate::flags::IMMUTABLE != 0 {
                    return Err(Errno::EPERM.into());
                }
                Ok(perm::may_access(cx.caller, inode, owner, mask, g)?)
            })
        })
    }

    /// `chmod(2)`.
    pub fn chmod(&self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        self.fchmodat(AT_FDCWD, path, mode, 0)
    }

    /// `fchmod(2)`.
    pub fn fchmod(&self, fd: Fd, mode: u16) -> Result<()> {
        self.call(Call::Fchmod, || {
            self.setattr_fd(
                fd,
                &SetAttr {
                    mode: Some(mode & 0o7777),
                    ..SetAttr::default()
                },
            )
        })
    }

    /// `fchmodat2(2)`; the mode of a symbolic link cannot be changed (`EOPNOTSUPP`).
    pub fn fchmodat(&self, dirfd: Fd, path: impl AsRef<[u8]>, mode: u16, flags: i32) -> Result<()> {
        self.call(Call::Fchmodat, || {
            let set = SetAttr {
                mode: Some(mode & 0o7777),
                ..SetAttr::default()
            };
            self.target(dirfd, path.as_ref(), flags, |cx, inode, g| {
                if inode.kind() == Kind::Symlink {
                    return Err(Errno::EOPNOTSUPP.into());
                }
                attr::setattr(cx, inode, &set, false, g)
            })
        })
    }

    /// `chown(2)`; `None` leaves an id as it is.
    pub fn chown(&self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.fchownat(AT_FDCWD, path, uid, gid, 0)
    }

    /// `lchown(2)`.
    pub fn lchown(&self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.fchownat(AT_FDCWD, path, uid, gid, libc::AT_SYMLINK_NOFOLLOW)
    }

    /// `fchown(2)`.
    pub fn fchown(&self, fd: Fd, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.call(Call::Fchown, || {
            self.setattr_fd(fd, &owner_change(uid, gid)?)
        })
    }

    /// `fchownat(2)`.
    pub fn fchownat(
        &self,
        dirfd: Fd,
        path: impl AsRef<[u8]>,
        uid: Option<u32>,
        gid: Option<u32>,
        flags: i32,
    ) -> Result<()> {
        self.call(Call::Fchownat, || {
            let set = owner_change(uid, gid)?;
            self.target(dirfd, path.as_ref(), flags, |cx, inode, g| {
                attr::setattr(cx, inode, &set, false, g)
            })
        })
    }

    /// `utimensat(2)`: access and modification time; `None` is `UTIME_OMIT`.
    pub fn utimensat(
        &self,
        dirfd: Fd,
        path: impl AsRef<[u8]>,
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
        flags: i32,
    ) -> Result<()> {
        self.call(Call::Utimensat, || {
            if atime.is_none() && mtime.is_none() {
                // Linux does not even look at the path.
                return Ok(());
            }
            self.target(dirfd, path.as_ref(), flags, |cx, inode, g| {
                attr::setattr(cx, inode, &times(atime, mtime)?, false, g)
            })
        })
    }

    /// `futimens(3)`.
    pub fn futimens(&self, fd: Fd, atime: Option<SetTime>, mtime: Option<SetTime>) -> Result<()> {
        self.call(Call::Futimens, || {
            if atime.is_none() && mtime.is_none() {
                return Ok(());
            }
            self.run(|cx, g| {
                let inode = self.inode_of(fd, g)?;
                attr::setattr(cx, inode, &times(atime, mtime)?, false, g)
            })
        })
    }

    /// `statfs(2)`.
    pub fn statfs(&self, path: impl AsRef<[u8]>) -> Result<StatFs> {
        self.call(Call::Statfs, || {
            self.target(AT_FDCWD, path.as_ref(), 0, |cx, inode, g| {
                Ok(statfs::statfs(cx.sb, inode, g))
            })
        })
    }

    /// `fstatfs(2)`.
    pub fn fstatfs(&self, fd: Fd) -> Result<StatFs> {
        self.call(Call::Fstatfs, || {
            self.run(|cx, g| Ok(statfs::statfs(cx.sb, self.any_inode_of(fd, g)?, g)))
        })
    }

    /// `ioctl(FS_IOC_GETFLAGS)`.
    pub fn get_flags(&self, fd: Fd) -> Result<u32> {
        self.call(Call::Ioctl, || {
            self.run(|_, g| Ok(self.inode_of(fd, g)?.meta.flags()))
        })
    }

    /// `ioctl(FS_IOC_SETFLAGS)`.
    pub fn set_flags(&self, fd: Fd, flags: u32) -> Result<()> {
        self.call(Call::Ioctl, || {
            self.run(|cx, g| ioctl::set_flags(cx, self.inode_of(fd, g)?, flags, g))
        })
    }

    /// `ioctl(FS_IOC_FSGETXATTR)`.
    pub fn get_fsxattr(&self, fd: Fd) -> Result<FsXAttr> {
        self.call(Call::Ioctl, || {
            self.run(|_, g| Ok(ioctl::get_fsxattr(self.inode_of(fd, g)?)))
        })
    }

    /// `ioctl(FS_IOC_FSSETXATTR)`.
    pub fn set_fsxattr(&self, fd: Fd, new: &FsXAttr) -> Result<()> {
        self.call(Call::Ioctl, || {
            self.run(|cx, g| ioctl::set_fsxattr(cx, self.inode_of(fd, g)?, new, g).map(drop))
        })
    }

    /// Runs `f` on the target of a path, with the `AT_*` flags that most calls accept.
    pub(super) fn target<T>(
        &self,
        dirfd: Fd,
        path: &[u8],
        flags: i32,
        mut f: impl FnMut(&Ctx<'_>, &Inode, &Guard) -> Attempt<T>,
    ) -> Result<T> {
        let known = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        if flags & !known != 0 {
            return Err(Errno::EINVAL);
        }
        if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            return self.run(|cx, g| f(cx, self.itself(dirfd, g)?, g));
        }
        let nofollow = flags & libc::AT_SYMLINK_NOFOLLOW != 0;
        let follow = if nofollow { Follow::Slash } else { Follow::Yes };
        self.at(dirfd, path, follow, |cx, walked, g| {
            f(cx, walked.existing()?, g)
        })
    }

    /// Runs a call that fills attributes in, where the caller of the library wants them: they are a
    /// large value, which would be copied at every step that returned it.
    #[inline(always)]
    fn attributes(&self, call: Call, fill: impl FnOnce(&mut Attr) -> Result<()>) -> Result<Attr> {
        let mut filled = Ok(Attr::default());
        if let Ok(attr) = &mut filled
            && let Err(errno) = self.call(call, || fill(attr))
        {
            filled = Err(errno);
        }
        filled
    }

    fn setattr_fd(&self, fd: Fd, set: &SetAttr) -> Result<()> {
        self.run(|cx, g| attr::setattr(cx, self.inode_of(fd, g)?, set, false, g))
    }
}

/// `EINVAL` for the number that means "keep it" to the system: nobody has it, and a kernel in front
/// could not show the file.
fn owner_change(uid: Option<u32>, gid: Option<u32>) -> Result<SetAttr> {
    if [uid, gid].contains(&Some(u32::MAX)) {
        return Err(Errno::EINVAL);
    }
    Ok(SetAttr {
        uid,
        gid,
        kill_suidgid: true,
        ..SetAttr::default()
    })
}

fn times(atime: Option<SetTime>, mtime: Option<SetTime>) -> Result<SetAttr> {
    for time in [atime, mtime].into_iter().flatten() {
        if let SetTime::At(time) | SetTime::NoEarlier(time) = time
            && time.nsec >= 1_000_000_000
        {
            return Err(Errno::EINVAL);
        }
    }
    Ok(SetAttr {
        atime,
        mtime,
        ..SetAttr::default()
    })
}
