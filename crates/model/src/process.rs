//! Processes and open file descriptions.

use std::collections::BTreeMap;

use crate::node::NodeId;
use crate::op::Fd;

/// Names an open file description.
pub type FileId = u64;

/// Credentials of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

impl Credentials {
    /// Returns whether it is root, which has every capability; others have none.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// A slot of a descriptor table.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    pub file: FileId,
    pub cloexec: bool,
}

/// One process.
#[derive(Debug, Clone)]
pub struct Process {
    pub credentials: Credentials,
    /// Changes with every change of credentials; `linkat` of an empty path checks it.
    pub identity: u64,
    pub umask: u32,
    pub cwd: NodeId,
    pub root: NodeId,
    pub fds: BTreeMap<Fd, Slot>,
}

impl Process {
    /// Returns the lowest free descriptor from `least` on.
    pub fn free_fd(&self, least: Fd) -> Fd {
        (least..)
            .find(|fd| !self.fds.contains_key(fd))
            .unwrap_or(Fd::MAX)
    }
}

/// An open file description, shared by `dup` and `fork`.
#[derive(Debug, Clone)]
pub struct OpenFile {
    pub node: NodeId,
    /// Flags of open that persist, access mode included.
    pub flags: i32,
    pub offset: u64,
    /// Descriptors that refer to it, of all processes.
    pub slots: usize,
    /// Process and identity that opened it.
    pub opener: (usize, u64),
}

impl OpenFile {
    pub fn is_path(&self) -> bool {
        self.flags & libc::O_PATH != 0
    }

    pub fn readable(&self) -> bool {
        !self.is_path() && matches!(self.flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR)
    }

    pub fn writable(&self) -> bool {
        !self.is_path() && matches!(self.flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
    }
}
