//! Project ids that the filesystem of the directory keeps itself, as XFS does.

use crate::node::Node;
use crate::quota::Membership;
use crate::sys::{self, FileAttr, FsxAttr};
use crate::tree::Tree;
use hearth::{Errno, Kind, Result};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, openat};
use std::ffi::CString;

/// `FS_XFLAG_PROJINHERIT`: what is made in a directory gets its project.
pub const PROJINHERIT: u32 = 0x200;

impl Tree {
    /// Whether inodes of this tree can be given a project: tried with a file that has no name and
    /// is never seen.
    pub fn can_keep_projects(&self) -> bool {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let Ok(file) = openat(self.root(), ".", flags, Mode::RUSR | Mode::WUSR) else {
            return false;
        };
        let Ok(found) = sys::get_fsxattr(file.as_fd()) else {
            return false;
        };
        // Not the one that it has: its directory may have passed that on.
        let other = found.projid ^ 1;
        let wanted = FsxAttr {
            projid: other,
            ..found
        };
        match sys::set_fsxattr(file.as_fd(), &wanted) {
            Ok(()) => sys::get_fsxattr(file.as_fd()).is_ok_and(|now| now.projid == other),
            // That project is full.
            Err(errno) => matches!(errno, Errno::EDQUOT | Errno::ENOSPC),
        }
    }

    /// The project of an inode, as the filesystem keeps it. What cannot be told, as of a symbolic
    /// link before Linux 6.17, was given the project of its directory when it was made.
    ///
    /// # Errors
    /// Those of the host: the project is not known then.
    pub fn membership(
        &self,
        fd: BorrowedFd<'_>,
        kind: Kind,
        parent: Option<Membership>,
    ) -> Result<Membership> {
        match self.attributes_of(fd, kind) {
            Err(Errno::ENOTTY | Errno::EOPNOTSUPP) => Ok(Membership {
                project: parent.unwrap_or_default().of_new(),
                passes_on: false,
            }),
            told => told,
        }
    }

    /// [`Tree::membership`] of a name that is no directory, without a descriptor where the kernel
    /// has the call.
    ///
    /// # Errors
    /// `ENOENT`, and what [`Tree::find`] says.
    pub fn membership_at(
        &self,
        directory: BorrowedFd<'_>,
        name: &CString,
        (kind, parent): (Kind, Membership),
    ) -> Result<Membership> {
        match sys::file_attributes(directory, name, libc::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(of_attributes(&found)),
            Err(Errno::ENOENT) => Err(Errno::ENOENT),
            Err(_) => {
                let found = self.find(directory, name.to_bytes())?;
                self.membership(found.fd.as_fd(), kind, Some(parent))
            }
        }
    }

    /// Learns the project of an inode that was found in a directory, if it is not known yet.
    pub fn learn_project(&self, node: &Node, fd: BorrowedFd<'_>, parent: &Node) {
        if self.keeps_projects()
            && node.charged.membership().is_none()
            && let Ok(member) = self.membership(fd, node.kind, parent.charged.membership())
        {
            node.charged.learn(member);
        }
    }

    /// Gives an inode a project, which a directory passes on unless it is 0.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where inodes of this type have none; `EPERM`, `EDQUOT` of the host's own limit.
    pub fn set_project(&self, fd: BorrowedFd<'_>, kind: Kind, project: u32) -> Result<()> {
        let passes_on = kind == Kind::Directory && project != 0;
        let inherit = if passes_on { PROJINHERIT } else { 0 };
        let xflags = |now: u64| now & !u64::from(PROJINHERIT) | u64::from(inherit);
        let name = proc_name(fd);
        let set = match sys::file_attributes(self.proc(), &name, 0) {
            Err(Errno(libc::ENOSYS | libc::EPERM)) => {
                self.open_for_ioctl(fd, kind).and_then(|file| {
                    let mut new = sys::get_fsxattr(file.as_fd())?;
                    (new.projid, new.xflags) = (project, xflags(new.xflags.into()) as u32);
                    sys::set_fsxattr(file.as_fd(), &new)
                })
            }
            found => found.and_then(|found| {
                let new = FileAttr {
                    projid: project,
                    xflags: xflags(found.xflags),
                    ..found
                };
                sys::set_file_attributes(self.proc(), &name, &new)
            }),
        };
        match set {
            Err(Errno::ENOTTY) => Err(Errno::EOPNOTSUPP),
            set => set,
        }
    }

    fn attributes_of(&self, fd: BorrowedFd<'_>, kind: Kind) -> Result<Membership> {
        match sys::file_attributes(self.proc(), &proc_name(fd), 0) {
            // A sandbox may refuse calls that it does not know.
            Err(Errno(libc::ENOSYS | libc::EPERM)) => {}
            found => return found.map(|found| of_attributes(&found)),
        }
        let file = self.open_for_ioctl(fd, kind)?;
        let found = sys::get_fsxattr(file.as_fd())?;
        Ok(of(found.projid, found.xflags.into()))
    }
}

fn of_attributes(found: &FileAttr) -> Membership {
    of(found.projid, found.xflags)
}

fn of(project: u32, xflags: u64) -> Membership {
    Membership {
        project,
        passes_on: xflags & u64::from(PROJINHERIT) != 0,
    }
}

/// A descriptor below `/proc/self/fd`: one of `O_PATH` is not taken by these calls themselves.
fn proc_name(fd: BorrowedFd<'_>) -> CString {
    CString::new(Tree::proc_name(fd)).expect("a number has no zero byte")
}
