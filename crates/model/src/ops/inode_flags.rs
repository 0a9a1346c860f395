//! Inode flags and projects: `FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS`, `FS_IOC_FSGETXATTR`,
//! `FS_IOC_FSSETXATTR`.

use libc::{EOPNOTSUPP, EPERM};

use crate::model::{Answer, Model};
use crate::node::{NodeId, libc_flags};
use crate::op::Fd;
use crate::outcome::Outcome;

/// Flags that need root to change.
const GUARDED: u32 = libc_flags::IMMUTABLE | libc_flags::APPEND;

/// Flags that can be set.
const SETTABLE: u32 = GUARDED | libc_flags::NODUMP | libc_flags::NOATIME | libc_flags::PROJINHERIT;

impl Model {
    pub(crate) fn get_flags(&mut self, p: usize, fd: Fd) -> Answer {
        let node = self.file(p, fd)?.node;
        Ok(Outcome::Number(u64::from(self.node(node).flags)))
    }

    pub(crate) fn set_flags(&mut self, p: usize, fd: Fd, flags: u32) -> Answer {
        let node = self.file(p, fd)?.node;
        let flags = self.of_this_kind(node, flags);
        self.check_flags(p, node, flags)?;
        if self.moves(node, flags, self.node(node).project) && !self.credentials(p).is_root() {
            return Ok(Outcome::Unspecified);
        }
        if flags & !SETTABLE != 0 {
            return Err(EOPNOTSUPP);
        }
        self.node_mut(node).flags = flags;
        Ok(Outcome::Done)
    }

    pub(crate) fn get_project(&mut self, p: usize, fd: Fd) -> Answer {
        let node = self.node(self.file(p, fd)?.node);
        let xflags = libc_flags::XFLAGS
            .iter()
            .filter(|(flag, _)| node.flags & flag != 0)
            .fold(0, |all, (_, xflag)| all | xflag);
        Ok(Outcome::Project(xflags, node.project))
    }

    pub(crate) fn set_project(&mut self, p: usize, fd: Fd, xflags: u32, project: u32) -> Answer {
        let node = self.file(p, fd)?.node;
        let known = libc_flags::XFLAGS
            .iter()
            .fold(0, |all, (_, xflag)| all | xflag);
        let flags = libc_flags::XFLAGS
            .iter()
            .filter(|(_, xflag)| xflags & xflag != 0)
            .fold(0, |all, (flag, _)| all | flag);
        let flags = self.of_this_kind(node, flags);
        self.check_flags(p, node, flags)?;
        if xflags & !known != 0 {
            return Err(EOPNOTSUPP);
        }
        if self.moves(node, flags, project) && !self.credentials(p).is_root() {
            return Ok(Outcome::Unspecified);
        }
        let node = self.node_mut(node);
        node.flags = flags;
        node.project = project;
        Ok(Outcome::Done)
    }

    /// Only directories pass their project on.
    fn of_this_kind(&self, id: NodeId, flags: u32) -> u32 {
        match self.node(id).is_dir() {
            true => flags,
            false => flags & !libc_flags::PROJINHERIT,
        }
    }

    /// Returns whether the inode would get another project, or pass its own on differently. Linux
    /// allows that to the owner; a filesystem whose project quotas bind users does not.
    fn moves(&self, id: NodeId, flags: u32, project: u32) -> bool {
        let node = self.node(id);
        project != node.project || (node.flags ^ flags) & libc_flags::PROJINHERIT != 0
    }

    fn check_flags(&self, p: usize, id: NodeId, flags: u32) -> Answer<()> {
        let guarded = (self.node(id).flags ^ flags) & GUARDED != 0;
        if !self.owns(p, id) || (guarded && !self.credentials(p).is_root()) {
            return Err(EPERM);
        }
        Ok(())
    }
}
