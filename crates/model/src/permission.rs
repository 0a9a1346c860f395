//! Permissions: mode bits, ACLs, capabilities of root, sticky directories, inode flags.

use libc::{EACCES, EEXIST, EISDIR, ENOENT, ENOTDIR, EPERM};

use crate::acl::Asker;
use crate::model::{Answer, Model};
use crate::node::{Node, NodeId, ROOT};
use crate::process::Credentials;

/// Wanted access, as in the mode bits.
pub const READ: u16 = 4;
pub const WRITE: u16 = 2;
pub const EXEC: u16 = 1;

impl Model {
    /// Returns whether process `p` has `want` on an inode.
    pub(crate) fn may(&self, p: usize, id: NodeId, want: u16) -> Answer<()> {
        let node = self.node(id);
        if want & WRITE != 0 && node.immutable() {
            return Err(EPERM);
        }
        let credentials = self.credentials(p);
        if granted(node, credentials, want) || overridden(node, credentials, want) {
            return Ok(());
        }
        Err(EACCES)
    }

    /// Returns whether it is the owner, or root.
    pub(crate) fn owns(&self, p: usize, id: NodeId) -> bool {
        let credentials = self.credentials(p);
        credentials.is_root() || credentials.uid == self.node(id).uid
    }

    /// Returns whether it is in the group of the inode, or root, and so may keep its setgid bit.
    pub(crate) fn keeps_setgid(&self, p: usize, gid: u32) -> bool {
        let credentials = self.credentials(p);
        credentials.is_root() || credentials.in_group(gid)
    }

    /// Returns whether a new name may be made in a directory.
    pub(crate) fn may_create(&self, p: usize, dir: NodeId, exists: bool) -> Answer<()> {
        if exists {
            return Err(EEXIST);
        }
        if self.is_removed(dir) {
            return Err(ENOENT);
        }
        self.may(p, dir, WRITE | EXEC)
    }

    /// Returns whether a name may be removed; `as_dir` is what the caller expects it to be.
    pub(crate) fn may_delete(
        &self,
        p: usize,
        dir: NodeId,
        victim: NodeId,
        as_dir: bool,
    ) -> Answer<()> {
        self.may(p, dir, WRITE | EXEC)?;
        let (parent, node) = (self.node(dir), self.node(victim));
        if parent.append_only() {
            return Err(EPERM);
        }
        let credentials = self.credentials(p);
        let sticky = parent.perm & 0o1000 != 0
            && !credentials.is_root()
            && credentials.uid != node.uid
            && credentials.uid != parent.uid;
        if sticky || node.append_only() || node.immutable() {
            return Err(EPERM);
        }
        match (as_dir, node.is_dir()) {
            (true, false) => Err(ENOTDIR),
            (true, true) if victim == ROOT => Err(libc::EBUSY),
            (false, true) => Err(EISDIR),
            _ if self.is_removed(dir) => Err(ENOENT),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_removed(&self, dir: NodeId) -> bool {
        self.node(dir).directory().is_some_and(|d| d.removed)
    }

    /// The bits that a write, truncation or change of owner removes.
    pub(crate) fn bits_to_kill(&self, p: usize, id: NodeId) -> u16 {
        let node = self.node(id);
        let setgid =
            node.perm & 0o2000 != 0 && (node.perm & 0o010 != 0 || !self.keeps_setgid(p, node.gid));
        (node.perm & 0o4000) | if setgid { 0o2000 } else { 0 }
    }

    /// Removes setuid and setgid when a process other than root changes the data of a regular file.
    pub(crate) fn strip_privileges(&mut self, p: usize, id: NodeId) {
        if !self.credentials(p).is_root() && self.node(id).pages().is_some() {
            let kill = self.bits_to_kill(p, id);
            self.node_mut(id).perm &= !kill;
        }
    }
}

/// Returns what mode bits and ACL grant.
fn granted(node: &Node, credentials: &Credentials, want: u16) -> bool {
    let has = |bits: u16| bits & want == want;
    if credentials.uid == node.uid {
        return has(node.perm >> 6);
    }
    if let Some(acl) = node.acl.as_ref().filter(|_| node.perm & 0o070 != 0) {
        let in_group = |gid| credentials.in_group(gid);
        let asker = Asker {
            uid: credentials.uid,
            owner: node.uid,
            group: node.gid,
            in_group: &in_group,
        };
        return acl.allows(&asker, want);
    }
    if credentials.in_group(node.gid) {
        has(node.perm >> 3)
    } else {
        has(node.perm)
    }
}

/// Returns what root may do beyond that: everything except executing a file without any execute
/// bit.
fn overridden(node: &Node, credentials: &Credentials, want: u16) -> bool {
    credentials.is_root() && (node.is_dir() || want & EXEC == 0 || node.perm & 0o111 != 0)
}
