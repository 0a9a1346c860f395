//! Names: looking them up, making, linking, renaming and removing them.

use crate::attributes;
use crate::errno::{Done, PassOn};
use crate::node::{Node, Place};
use crate::over::Over;
use crate::reach::{Found, c_name};
use crate::tree::Tree;
use hearth::{Attr, Caller, Errno, Kind, Result};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    AtFlags, FileType, Mode, RenameFlags, linkat, mkdirat, mknodat, renameat_with, symlinkat,
    unlinkat,
};

impl Tree {
    /// The inode of `name` in `parent`, with a reference. The daemon looks, since the kernel has
    /// checked that the caller may: a refusal to one would make the kernel drop the name for all.
    pub fn lookup(&self, caller: u32, parent: &Arc<Node>, name: &[u8]) -> Result<Attr> {
        let directory = self.reach(parent)?;
        let found = self.find(directory.as_fd(), name)?;
        self.take_for(caller, parent, name, found)
    }

    /// [`Tree::lookup`] of a name that is listed, which nobody has asked for: no filesystem below
    /// is entered.
    pub fn lookup_listed(&self, parent: &Arc<Node>, name: &[u8]) -> Result<Attr> {
        let directory = self.reach(parent)?;
        let found = Tree::find_listed(directory.as_fd(), name)?;
        self.take(parent, name, found)
    }

    /// Makes a file, fifo, socket or device.
    pub fn mknod(
        &self,
        caller: &Caller<'_>,
        (parent, name): (&Arc<Node>, &[u8]),
        kind: Kind,
        mode: u16,
        rdev: u32,
    ) -> Done<Attr> {
        let directory = self.reach(parent)?;
        let (at, entry) = (directory.as_fd(), c_name(name)?);
        let bits = Mode::from_raw_mode(mode.into());
        let file_type = FileType::from_raw_mode(kind.mode_bits());
        self.rights.make(caller, Over::Inodes(&[at]), mode, || {
            mknodat(at, &*entry, file_type, bits, rdev.into()).pass_on()
        })?;
        Ok(self.made(at, parent, name, kind))
    }

    /// Makes a directory.
    pub fn mkdir(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        name: &[u8],
        mode: u16,
    ) -> Done<Attr> {
        let directory = self.reach(parent)?;
        let (at, entry) = (directory.as_fd(), c_name(name)?);
        let bits = Mode::from_raw_mode(mode.into());
        self.rights.make(caller, Over::Inodes(&[at]), mode, || {
            mkdirat(at, &*entry, bits).pass_on()
        })?;
        Ok(self.made(at, parent, name, Kind::Directory))
    }

    /// Makes a symbolic link.
    pub fn symlink(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        name: &[u8],
        target: &[u8],
    ) -> Done<Attr> {
        let directory = self.reach(parent)?;
        let (at, entry) = (directory.as_fd(), c_name(name)?);
        self.rights.make(caller, Over::Inodes(&[at]), 0, || {
            symlinkat(target, at, &*entry).pass_on()
        })?;
        Ok(self.made(at, parent, name, Kind::Symlink))
    }

    /// Gives an inode one more name.
    pub fn link(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        parent: &Arc<Node>,
        name: &[u8],
    ) -> Done<Attr> {
        let reached = self.reach(node)?;
        let source = Tree::proc_name(reached.as_fd());
        let directory = self.reach(parent)?;
        let (at, entry) = (directory.as_fd(), c_name(name)?);
        // Through /proc, since by an empty name it takes a capability that the caller may lack.
        let flags = AtFlags::SYMLINK_FOLLOW;
        let over = [reached.as_fd(), at];
        self.rights.act(caller, Over::Inodes(&over), || {
            linkat(self.proc(), &*source, at, &*entry, flags).pass_on()
        })?;
        Ok(self.linked(node, reached.as_fd(), (parent, name)))
    }

    /// An inode, which `fd` is of, has got one more name.
    fn linked(
        &self,
        node: &Arc<Node>,
        fd: BorrowedFd<'_>,
        (parent, name): (&Arc<Node>, &[u8]),
    ) -> Result<Attr> {
        // A name by which it is found stays its place: the new one may go first.
        let is_found = node.place().is_some() && !node.may_reopen();
        if !self.opens_handles_of(&node.id) && !is_found {
            node.set_place(Place {
                parent: Arc::clone(parent),
                name: name.into(),
            });
        }
        let attr = self.attr(node, fd, &attributes::stat(fd)?)?;
        if attr.nlink > 0 {
            // Its name finds it from now on, and who removes that holds it again.
            drop(self.nodes.let_go(node));
        }
        self.nodes.take_again(node)?;
        Ok(attr)
    }

    /// Removes a name; with `REMOVEDIR` that of a directory.
    pub fn remove(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        name: &[u8],
        flags: AtFlags,
    ) -> Result<()> {
        let directory = self.reach(parent)?;
        let (at, entry) = (directory.as_fd(), c_name(name)?);
        let victim = self.victim(at, name);
        self.rights.act(caller, Over::Names(&[(at, &entry)]), || {
            unlinkat(at, &*entry, flags).pass_on()
        })?;
        self.lost_name(caller, victim);
        Ok(())
    }

    /// Renames.
    pub fn rename(
        &self,
        caller: &Caller<'_>,
        (from, name): (&Arc<Node>, &[u8]),
        (to, new_name): (&Arc<Node>, &[u8]),
        flags: u32,
    ) -> Result<()> {
        let (source, target) = (self.reach(from)?, self.reach(to)?);
        let (source_name, target_name) = (c_name(name)?, c_name(new_name)?);
        let flags = RenameFlags::from_bits_retain(flags);
        let victim = match flags.contains(RenameFlags::EXCHANGE) {
            true => None,
            false => self.victim(target.as_fd(), new_name),
        };
        let rename = || {
            let (source, target) = (source.as_fd(), target.as_fd());
            renameat_with(source, &*source_name, target, &*target_name, flags).pass_on()
        };
        let over = [
            (source.as_fd(), &*source_name),
            (target.as_fd(), &*target_name),
        ];
        let over = Over::Names(&over);
        match flags.contains(RenameFlags::WHITEOUT) {
            true => self.rights.make(caller, over, 0, rename)?,
            false => self.rights.act(caller, over, rename)?,
        }
        self.lost_name(caller, victim);
        self.moved(target.as_fd(), to, new_name);
        if flags.contains(RenameFlags::EXCHANGE) {
            self.moved(source.as_fd(), from, name);
        }
        Ok(())
    }

    /// The inode of a name that was made just now. If others have removed or replaced it by
    /// something of another type, the kernel looks again and makes it again: it came after them.
    fn made(
        &self,
        at: BorrowedFd<'_>,
        parent: &Arc<Node>,
        name: &[u8],
        kind: Kind,
    ) -> Result<Attr> {
        match self.find(at, name) {
            Ok(found) if attributes::kind(&found.stat)? == kind => self.take(parent, name, found),
            Ok(_) | Err(Errno::ENOENT) => Err(Errno::ESTALE),
            Err(errno) => Err(errno),
        }
    }

    /// The inode that a name means, if the kernel refers to it and it may lose its last name.
    fn victim(&self, at: BorrowedFd<'_>, name: &[u8]) -> Option<(Arc<Node>, Found)> {
        let found = self.find(at, name).ok()?;
        let node = self.nodes.known(&found.id)?;
        let is_last = found.stat.stx_nlink <= 1 || node.kind == Kind::Directory;
        // What is kept of it would keep its room.
        self.descriptors.remove(node.number);
        is_last.then_some((node, found))
    }

    /// The last name of an inode is gone. Whoever uses it goes on; where too many files are open,
    /// whoever has it open.
    fn lost_name(&self, caller: &Caller<'_>, victim: Option<(Arc<Node>, Found)>) {
        let Some((node, found)) = victim else { return };
        let is_new = node.hold_open().or_else(|| {
            let place = self.place(caller, &node, node.kind).ok()?;
            Some(node.hold((found.fd, place)))
        });
        if is_new == Some(true) {
            self.nodes.note_held();
        }
    }

    /// An inode has got this name, which matters if that is how it is found.
    fn moved(&self, at: BorrowedFd<'_>, parent: &Arc<Node>, name: &[u8]) {
        let is_found_by_name = |found: &Found| !self.opens_handles_of(&found.id);
        if self.opens_handles && parent.id.mount == self.nodes.root().id.mount {
            return;
        }
        if let Ok(found) = self.find(at, name)
            && is_found_by_name(&found)
            && let Some(node) = self.nodes.known(&found.id)
        {
            node.set_place(Place {
                parent: Arc::clone(parent),
                name: name.into(),
            });
        }
    }
}
