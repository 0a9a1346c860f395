//! Inode flags and project ids: what `chattr` and `lsattr` show.

use crate::errno::PassOn;
use crate::node::Node;
use crate::over::Over;
use crate::sys::{self, FsxAttr};
use crate::tree::Tree;
use hearth::{Caller, Errno, FsXAttr, Kind, Result, flags};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};

/// With one of these a file cannot be opened to be written to anywhere.
const FIXED: u32 = flags::IMMUTABLE | flags::APPEND;

impl Tree {
    /// `FS_*_FL` flags.
    pub fn get_flags(&self, node: &Arc<Node>) -> Result<u32> {
        sys::get_flags(self.open_for_flags(node)?.as_fd())
    }

    /// Sets `FS_*_FL` flags.
    pub fn set_flags(&self, caller: &Caller<'_>, node: &Arc<Node>, new: u32) -> Result<()> {
        let file = self.open_for_flags(node)?;
        let is_fixed = new & FIXED != 0;
        let kept = is_fixed.then(|| self.take_back(node));
        let done = self.rights.act(caller, Over::Inodes(&[file.as_fd()]), || {
            sys::set_flags(file.as_fd(), new)
        });
        drop(kept);
        // Where it was refused.
        self.give_up_idle(node);
        done
    }

    /// Flags and project id.
    pub fn get_fsxattr(&self, node: &Arc<Node>) -> Result<FsXAttr> {
        let found = sys::get_fsxattr(self.open_for_flags(node)?.as_fd())?;
        Ok(FsXAttr {
            xflags: found.xflags,
            extsize: found.extsize,
            nextents: found.nextents,
            project: found.projid,
            cowextsize: found.cowextsize,
        })
    }

    /// Sets flags and project id.
    pub fn set_fsxattr(&self, caller: &Caller<'_>, node: &Arc<Node>, new: &FsXAttr) -> Result<()> {
        let file = self.open_for_flags(node)?;
        let is_fixed = new.xflags & flags::to_xflags(FIXED) != 0;
        let kept = is_fixed.then(|| self.take_back(node));
        let new = FsxAttr {
            xflags: new.xflags,
            extsize: new.extsize,
            nextents: new.nextents,
            projid: new.project,
            cowextsize: new.cowextsize,
            ..FsxAttr::default()
        };
        let done = self.rights.act(caller, Over::Inodes(&[file.as_fd()]), || {
            sys::set_fsxattr(file.as_fd(), &new)
        });
        drop(kept);
        self.give_up_idle(node);
        done
    }

    /// Opens an inode for an `ioctl`, with the daemon's own rights: the caller has it open already.
    fn open_for_flags(&self, node: &Arc<Node>) -> Result<OwnedFd> {
        self.open_for_ioctl(self.reach(node)?.as_fd(), node.kind)
    }

    /// Opens an inode that is open by `O_PATH`, to read or set what it has beside its contents.
    /// Nothing but directories and regular files is opened.
    ///
    /// # Errors
    /// `ENOTTY` for another type.
    pub fn open_for_ioctl(&self, fd: BorrowedFd<'_>, kind: Kind) -> Result<OwnedFd> {
        if !matches!(kind, Kind::File | Kind::Directory) {
            return Err(Errno::ENOTTY);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(self.proc(), &*Tree::proc_name(fd), flags, Mode::empty()).pass_on()
    }
}
