//! stat, access, chmod, chown.

use libc::{AT_EACCESS, AT_EMPTY_PATH, AT_NO_AUTOMOUNT, AT_SYMLINK_NOFOLLOW};
use libc::{AT_STATX_DONT_SYNC, AT_STATX_FORCE_SYNC, STATX__RESERVED};
use libc::{EINVAL, EOPNOTSUPP, EPERM};

use crate::data::{PAGE, PageCount, Pages};
use crate::model::{Answer, FREE, Model};
use crate::node::NodeId;
use crate::op::Fd;
use crate::outcome::{Attr, Outcome, Stamp, StatX};

/// Owner and group given to `chown`.
type Owners = (Option<u32>, Option<u32>);

/// How fresh the result of `statx` must be: both bits together are invalid.
const SYNC: i32 = AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC;

const NO_PAGES: PageCount = PageCount { least: 0, most: 0 };

impl Model {
    pub(crate) fn stat(&mut self, p: usize, dirfd: Fd, path: &[u8], flags: i32) -> Answer {
        let how = at_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT)?;
        let node = self.lookup_at(p, dirfd, path, how)?;
        Ok(Outcome::Attr(self.attr(node)))
    }

    pub(crate) fn stat_fd(&mut self, p: usize, fd: Fd) -> Answer {
        let node = self.any_file(p, fd)?.node;
        Ok(Outcome::Attr(self.attr(node)))
    }

    pub(crate) fn statx(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        flags: i32,
        mask: u32,
    ) -> Answer {
        if mask & STATX__RESERVED as u32 != 0 || flags & SYNC == SYNC {
            return Err(EINVAL);
        }
        let known = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT;
        let itself = dirfd >= 0 && path.is_empty() && flags & AT_EMPTY_PATH != 0;
        if itself && flags & !(known | SYNC) != 0 {
            // A descriptor is checked before or after the other flags.
            return Err(FREE);
        }
        let node = self.lookup_at(p, dirfd, path, at_flags(flags & !SYNC, known)?)?;
        if self.is_mounted && flags & AT_STATX_DONT_SYNC != 0 {
            return Err(FREE);
        }
        let attributes_mask = match self.is_mounted {
            true => 0,
            false => StatX::ATTRIBUTES,
        };
        Ok(Outcome::StatX(StatX {
            mask: mask & StatX::FIELDS,
            attributes: u64::from(self.node(node).flags) & attributes_mask,
            attributes_mask,
            blksize: PAGE as u32,
            attr: self.attr(node),
            birth: (0, 0),
        }))
    }

    pub(crate) fn attr(&self, id: NodeId) -> Attr {
        let node = self.node(id);
        let pages = node.pages().map_or(NO_PAGES, Pages::count);
        let attributes = node.pages().map_or(0, |_| node.attribute_pages());
        Attr {
            ino: id,
            kind: node.kind(),
            perm: node.perm,
            nlink: node.nlink,
            uid: node.uid,
            gid: node.gid,
            rdev: node.rdev(),
            size: node.size(),
            atime: node.atime,
            mtime: node.mtime,
            ctime: Stamp::Now,
            pages: PageCount {
                // Large attributes may use space of their own.
                most: pages.most + attributes,
                ..pages
            },
        }
    }

    pub(crate) fn access(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        mask: i32,
        flags: i32,
    ) -> Answer {
        if mask & !7 != 0 {
            return Err(EINVAL);
        }
        let how = at_flags(flags, AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
        let node = self.lookup_at(p, dirfd, path, how)?;
        self.may(p, node, mask as u16)?;
        Ok(Outcome::Done)
    }

    pub(crate) fn chmod(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        mode: u32,
        flags: i32,
    ) -> Answer {
        let how = at_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
        let node = self.lookup_at(p, dirfd, path, how)?;
        self.chmod_node(p, node, mode)
    }

    pub(crate) fn chmod_fd(&mut self, p: usize, fd: Fd, mode: u32) -> Answer {
        let node = self.file(p, fd)?.node;
        self.chmod_node(p, node, mode)
    }

    fn chmod_node(&mut self, p: usize, id: NodeId, mode: u32) -> Answer {
        let node = self.node(id);
        if node.immutable() || node.append_only() {
            return Err(EPERM);
        }
        if node.is_symlink() {
            return Err(EOPNOTSUPP);
        }
        if !self.owns(p, id) {
            return Err(EPERM);
        }
        let mut perm = (mode & 0o7777) as u16;
        if !self.keeps_setgid(p, node.gid) {
            perm &= !0o2000;
        }
        let node = self.node_mut(id);
        node.perm = perm;
        if let Some(acl) = &mut node.acl {
            acl.chmod(perm);
        }
        Ok(Outcome::Done)
    }

    pub(crate) fn chown(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        to: Owners,
        flags: i32,
    ) -> Answer {
        let how = at_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
        let node = self.lookup_at(p, dirfd, path, how)?;
        self.chown_node(p, node, to)
    }

    pub(crate) fn chown_fd(&mut self, p: usize, fd: Fd, to: Owners) -> Answer {
        let node = self.file(p, fd)?.node;
        self.chown_node(p, node, to)
    }

    fn chown_node(&mut self, p: usize, id: NodeId, (uid, gid): Owners) -> Answer {
        let node = self.node(id);
        let credentials = self.credentials(p);
        let root = credentials.is_root();
        let owner = credentials.uid == node.uid;
        if (uid.is_some() || gid.is_some()) && (node.immutable() || node.append_only()) {
            return Err(EPERM);
        }
        if uid.is_some_and(|uid| !(root || owner && uid == node.uid)) {
            return Err(EPERM);
        }
        let group_ok = |gid| owner && (gid == node.gid || credentials.in_group(gid));
        if gid.is_some_and(|gid| !root && !group_ok(gid)) {
            return Err(EPERM);
        }
        let kill = if node.is_dir() {
            0
        } else {
            self.bits_to_kill(p, id)
        };
        if kill != 0 && !root && !owner {
            return Err(EPERM);
        }
        let node = self.node_mut(id);
        node.uid = uid.unwrap_or(node.uid);
        node.gid = gid.unwrap_or(node.gid);
        node.perm &= !kill;
        Ok(Outcome::Done)
    }
}

/// Checks the flags of an `*at` call: whether to follow, whether an empty path is allowed.
pub(crate) fn at_flags(flags: i32, known: i32) -> Answer<(bool, bool)> {
    if flags & !known != 0 {
        return Err(EINVAL);
    }
    Ok((flags & AT_SYMLINK_NOFOLLOW == 0, flags & AT_EMPTY_PATH != 0))
}
