//! Extended attributes.

use super::{AT_FDCWD, Fd, Process};
use crate::calls::Call;
use crate::errno::Result;
use crate::ops::xattr;

impl Process {
    /// `getxattr(2)`: the whole value.
    pub fn getxattr(&self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<Vec<u8>> {
        self.getxattrat(AT_FDCWD, path, name, 0)
    }

    /// `lgetxattr(2)`.
    pub fn lgetxattr(&self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<Vec<u8>> {
        self.getxattrat(AT_FDCWD, path, name, libc::AT_SYMLINK_NOFOLLOW)
    }

    /// `getxattrat(2)`, with `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`. `EBADF` if the latter names
    /// an `O_PATH` descriptor, as for `fgetxattr(2)`.
    pub fn getxattrat(
        &self,
        dirfd: Fd,
        path: impl AsRef<[u8]>,
        name: &[u8],
        flags: i32,
    ) -> Result<Vec<u8>> {
        self.call(Call::Getxattr, || {
            xattr::check_name(name)?;
            let of_itself = flags & !libc::AT_SYMLINK_NOFOLLOW == libc::AT_EMPTY_PATH;
            if of_itself && dirfd != AT_FDCWD && path.as_ref().is_empty() {
                return self.xattr_of(dirfd, name);
            }
            self.target(dirfd, path.as_ref(), flags, |cx, inode, g| {
                Ok(xattr::get(cx, inode, name, g)?.into_vec())
            })
        })
    }

    /// `fgetxattr(2)`.
    pub fn fgetxattr(&self, fd: Fd, name: &[u8]) -> Result<Vec<u8>> {
        self.call(Call::Fgetxattr, || {
            xattr::check_name(name)?;
            self.xattr_of(fd, name)
        })
    }

    fn xattr_of(&self, fd: Fd, name: &[u8]) -> Result<Vec<u8>> {
        self.run(|cx, g| {
            let inode = self.inode_of(fd, g)?;
            Ok(xattr::get(cx, inode, name, g)?.into_vec())
        })
    }

    /// `setxattr(2)`; `flags` are `XATTR_CREATE` and `XATTR_REPLACE`.
    pub fn setxattr(
        &self,
        path: impl AsRef<[u8]>,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Result<()> {
        self.call(Call::Setxattr, || {
            xattr::check_request(name, value, flags)?;
            self.target(AT_FDCWD, path.as_ref(), 0, |cx, inode, g| {
                xattr::set(cx, inode, name, value, flags, false, g)
            })
        })
    }

    /// `lsetxattr(2)`.
    pub fn lsetxattr(
        &self,
        path: impl AsRef<[u8]>,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Result<()> {
        self.call(Call::Setxattr, || {
            xattr::check_request(name, value, flags)?;
            let nofollow = libc::AT_SYMLINK_NOFOLLOW;
            self.target(AT_FDCWD, path.as_ref(), nofollow, |cx, inode, g| {
                xattr::set(cx, inode, name, value, flags, false, g)
            })
        })
    }

    /// `fsetxattr(2)`.
    pub fn fsetxattr(&self, fd: Fd, name: &[u8], value: &[u8], flags: i32) -> Result<()> {
        self.call(Call::Fsetxattr, || {
            xattr::check_request(name, value, flags)?;
            self.run(|cx, g| {
                let inode = self.inode_of(fd, g)?;
                xattr::set(cx, inode, name, value, flags, false, g)
            })
        })
    }

    /// `listxattr(2)`: names, each followed by a NUL.
    pub fn listxattr(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.call(Call::Listxattr, || {
            self.target(AT_FDCWD, path.as_ref(), 0, |cx, inode, g| {
                xattr::list(cx, inode, g)
            })
        })
    }

    /// `llistxattr(2)`.
    pub fn llistxattr(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.call(Call::Listxattr, || {
            let nofollow = libc::AT_SYMLINK_NOFOLLOW;
            self.target(AT_FDCWD, path.as_ref(), nofollow, |cx, inode, g| {
                xattr::list(cx, inode, g)
            })
        })
    }

    /// `flistxattr(2)`.
    pub fn flistxattr(&self, fd: Fd) -> Result<Vec<u8>> {
        self.call(Call::Flistxattr, || {
            self.run(|cx, g| xattr::list(cx, self.inode_of(fd, g)?, g))
        })
    }

    /// `removexattr(2)`.
    pub fn removexattr(&self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<()> {
        self.call(Call::Removexattr, || {
            xattr::check_name(name)?;
            self.target(AT_FDCWD, path.as_ref(), 0, |cx, inode, g| {
                xattr::remove(cx, inode, name, g)
            })
        })
    }

    /// `lremovexattr(2)`.
    pub fn lremovexattr(&self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<()> {
        self.call(Call::Removexattr, || {
            xattr::check_name(name)?;
            let nofollow = libc::AT_SYMLINK_NOFOLLOW;
            self.target(AT_FDCWD, path.as_ref(), nofollow, |cx, inode, g| {
                xattr::remove(cx, inode, name, g)
            })
        })
    }

    /// `fremovexattr(2)`.
    pub fn fremovexattr(&self, fd: Fd, name: &[u8]) -> Result<()> {
        self.call(Call::Fremovexattr, || {
            xattr::check_name(name)?;
            self.run(|cx, g| xattr::remove(cx, self.inode_of(fd, g)?, name, g))
        })
    }
}
