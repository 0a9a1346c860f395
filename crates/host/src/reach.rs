//! From an inode to a descriptor of it, and from a name to an inode.
//!
//! No component is ever opened through a link, and nothing but directories and regular files is
//! opened other than by `O_PATH`.

use crate::attributes;
use crate::errno::PassOn;
use crate::identity::Identity;
use crate::node::{Node, Place};
use crate::private_mounts;
use crate::pseudo::pseudo_filesystem;
use crate::tree::Tree;
use hearth::{Attr, Errno, NAME_MAX, Result};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags, makedev, openat, openat2, statx,
};
use std::ffi::{CStr, CString};

/// Directories above an inode, as a path may have.
const DEPTH_MAX: usize = 4096;

/// The last user that Linux has, which nobody is and nothing maps.
const UNMAPPED: u32 = u32::MAX - 1;

/// A descriptor of an inode, for as long as an operation needs it.
#[derive(Debug)]
pub enum Reached<'t> {
    /// The root's.
    Root(BorrowedFd<'t>),
    /// Of this operation.
    Own(OwnedFd),
    /// Of an open file, or kept.
    Shared(Arc<OwnedFd>),
}

/// What was found by a name.
#[derive(Debug)]
pub struct Found {
    pub fd: OwnedFd,
    pub stat: Statx,
    pub id: Identity,
}

impl AsFd for Reached<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Reached::Root(fd) => *fd,
            Reached::Own(fd) => fd.as_fd(),
            Reached::Shared(fd) => fd.as_fd(),
        }
    }
}

impl Tree {
    /// A descriptor of an inode, of `O_PATH` or of an open file.
    ///
    /// # Errors
    /// `ESTALE` if it is gone, or no longer where it was found.
    pub fn reach(&self, node: &Arc<Node>) -> Result<Reached<'_>> {
        // From the inode up to a directory that is at hand, and down again.
        let (mut at, mut below) = (Arc::clone(node), Vec::new());
        let mut reached = loop {
            if let Some(reached) = self.at_hand(&at)? {
                break reached;
            }
            let place = at.place().ok_or(Errno::ESTALE)?;
            below.push((at, place.name));
            // Places that others have changed may lead in a circle.
            if below.len() > DEPTH_MAX {
                return Err(Errno::ESTALE);
            }
            at = place.parent;
        };
        while let Some((node, name)) = below.pop() {
            let fd = match self.find(reached.as_fd(), &name) {
                Ok(found) if found.id == node.id => Arc::new(found.fd),
                Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR) => return Err(Errno::ESTALE),
                Err(errno) => return Err(errno),
            };
            self.keep(&node, &fd);
            reached = Reached::Shared(fd);
        }
        Ok(reached)
    }

    /// Looks a name up, without a reference.
    ///
    /// # Errors
    /// `ENOENT`, `ENAMETOOLONG`, `EXDEV` at the edge of another filesystem with `xdev`, `ELOOP` at
    /// the mount that serves the tree.
    pub fn find(&self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<Found> {
        let name = c_name(name)?;
        let fd = match open_here(directory, &name) {
            Err(Errno::EXDEV) => self.enter(directory, &name)?,
            fd => fd?,
        };
        Found::of(fd)
    }

    /// [`Tree::find`], for somebody who has not asked for this name: what is mounted there is not
    /// asked either, since it may not answer.
    ///
    /// # Errors
    /// `EXDEV` at the edge of another filesystem.
    pub fn find_listed(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Found> {
        Found::of(open_here(directory, &c_name(name)?)?)
    }

    /// Takes a reference on what was found as `name` in `parent`, and tells its attributes.
    ///
    /// # Errors
    /// `EIO` for an unknown type.
    pub fn take(&self, parent: &Arc<Node>, name: &[u8], found: Found) -> Result<Attr> {
        self.take_for(0, parent, name, found)
    }

    /// [`Tree::take`] for a caller, who may be looking for the second time.
    ///
    /// # Errors
    /// `EIO` for an unknown type.
    pub fn take_for(
        &self,
        caller: u32,
        parent: &Arc<Node>,
        name: &[u8],
        found: Found,
    ) -> Result<Attr> {
        let kind = attributes::kind(&found.stat)?;
        let by_handle = self.opens_handles_of(&found.id);
        let place = (!by_handle).then(|| Place {
            parent: Arc::clone(parent),
            name: name.into(),
        });
        let node = self.nodes.take(found.id, kind, place);
        let attr = self.attr(&node, found.fd.as_fd(), &found.stat)?;
        self.learn_project(&node, found.fd.as_fd(), parent);
        let fd = Arc::new(found.fd);
        self.retries.found(caller, (parent, name), (&node, &fd));
        if !by_handle {
            self.keep(&node, &fd);
        }
        Ok(attr)
    }

    /// Attributes of an inode, which `fd` is of.
    ///
    /// # Errors
    /// `EIO` for an unknown type.
    pub fn attr(&self, node: &Node, fd: BorrowedFd<'_>, stat: &Statx) -> Result<Attr> {
        node.set_owner(stat.stx_uid);
        node.set_mode(stat.stx_mode.into());
        let shown = self.shown(node.id.dev, node.id.ino);
        let mut attr = attributes::attr(node.number, shown, &node.id, stat)?;
        if node.id.mount != self.nodes.root().id.mount
            && let Some(owner) = private_mounts::owner(fd, stat)
        {
            // The kernel checks who may enter. Where ids may be mapped, 0 may be anybody's.
            (attr.uid, attr.perm) = match self.rights.are_checked() {
                true => (UNMAPPED, 0),
                false => (owner, attr.perm & 0o700),
            };
        }
        Ok(attr)
    }

    /// The name of a descriptor below [`Tree::proc`].
    pub fn proc_name(fd: BorrowedFd<'_>) -> String {
        fd.as_raw_fd().to_string()
    }

    /// The path of a descriptor, for calls that take nothing else.
    pub fn proc_path(fd: BorrowedFd<'_>) -> String {
        format!("/proc/self/fd/{}", fd.as_raw_fd())
    }

    /// Opens `name`, on which another filesystem is mounted.
    fn enter(&self, directory: BorrowedFd<'_>, name: &CString) -> Result<OwnedFd> {
        if self.options.xdev {
            return Err(Errno::EXDEV);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(directory, &**name, flags, Mode::empty()).pass_on()?;
        // Whoever serves it is not asked: it may be this daemon.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = statx(&fd, c"", flags, StatxFlags::TYPE).pass_on()?;
        match self.is_own_device(makedev(stat.stx_dev_major, stat.stx_dev_minor)) {
            true => Err(Errno::ELOOP),
            false => {
                // A pseudo filesystem is not counted, so it may be gone by the end.
                if pseudo_filesystem(&fd).is_none() {
                    self.enters();
                }
                Ok(fd)
            }
        }
    }

    /// A descriptor that takes no walk.
    fn at_hand(&self, node: &Arc<Node>) -> Result<Option<Reached<'_>>> {
        if Arc::ptr_eq(node, self.nodes.root()) {
            return Ok(Some(Reached::Root(self.root())));
        }
        if let Some(fd) = node.descriptor() {
            return Ok(Some(Reached::Shared(fd)));
        }
        if self.opens_handles_of(&node.id)
            && let Some(handle) = node.id.handle()
        {
            return handle.open(self.root()).map(|fd| Some(Reached::Own(fd)));
        }
        Ok(self.descriptors.get(node.number).map(Reached::Shared))
    }

    /// Keeps the descriptor of an inode, but not on a mount below, which it would keep busy.
    fn keep(&self, node: &Node, fd: &Arc<OwnedFd>) {
        if node.id.mount == self.nodes.root().id.mount {
            self.descriptors.put(node.number, fd);
        }
    }
}

impl Found {
    fn of(fd: OwnedFd) -> Result<Found> {
        let stat = attributes::stat(fd.as_fd())?;
        let id = Identity::of(fd.as_fd(), &stat);
        Ok(Found { fd, stat, id })
    }
}

/// Opens a name by `O_PATH`, on the directory's own filesystem.
fn open_here(directory: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat2(directory, name, flags, Mode::empty(), ResolveFlags::NO_XDEV).pass_on() {
        // Linux before 5.6.
        Err(Errno::ENOSYS) => openat(directory, name, flags, Mode::empty()).pass_on(),
        fd => fd,
    }
}

/// A name that is one component and leads down.
pub fn c_name(name: &[u8]) -> Result<CString> {
    match name {
        // The directory above may lie outside of the tree.
        b".." => return Err(Errno::ENOENT),
        b"" | b"." => return Err(Errno::EINVAL),
        _ if name.len() > NAME_MAX => return Err(Errno::ENAMETOOLONG),
        _ if name.contains(&b'/') => return Err(Errno::EINVAL),
        _ => {}
    }
    CString::new(name).map_err(|_| Errno::EINVAL)
}
