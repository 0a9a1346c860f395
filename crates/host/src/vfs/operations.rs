//! The operations of [`Vfs`] on a directory of the host.

use super::HostVfs;
use crate::checked::SuidSgid;
use crate::file::{HostFile, Opened};
use crate::node::Node;
use crate::tree::Tree;
use hearth::{
    Attr, Caller, DirEntry, Errno, FsXAttr, Interrupt, Kind, LockRequest, Miss, ROOT, SetAttr,
    StatFs, Vfs, VfsResult, WriteAt, is_control,
};
use hearth_sync::primitive::Arc;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, syncfs};

/// The name of the control directory, which a file of the tree hides.
const CONTROL_NAME: &[u8] = b".hearth";

impl Vfs for HostVfs {
    type File = HostFile;

    fn fetch(&self, miss: &Miss) -> Result<(), Errno> {
        self.control.fetch(miss)?;
        // A limit that it has set is acknowledged when this has ended.
        self.make_kept_durable(false)
    }

    /// Operations wait where they run.
    fn sync_waits(&self) -> bool {
        false
    }

    fn may_block(&self) -> bool {
        true
    }

    fn most_calls(&self) -> usize {
        self.tree.calls
    }

    fn lookup(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> VfsResult<Attr> {
        if is_control(parent) {
            return self.control.lookup(caller, parent, name);
        }
        match self.looked_up(caller, parent, name) {
            Err(Errno::ENOENT) if parent == ROOT && name == CONTROL_NAME => {
                self.control.lookup(caller, ROOT, name)
            }
            found => Ok(found?),
        }
    }

    fn grab(&self, ino: u64) -> VfsResult<Attr> {
        if is_control(ino) {
            return self.control.grab(ino);
        }
        let node = self.node(ino)?;
        let attr = self.tree.getattr(&node)?;
        self.tree.nodes.take_again(&node)?;
        Ok(attr)
    }

    fn grab_listed(&self, parent: u64, name: &[u8], shown: u64) -> VfsResult<Attr> {
        if is_control(parent) {
            return self.control.grab(shown);
        }
        let parent = self.node(parent)?;
        Ok(self.found(&parent, self.tree.lookup_listed(&parent, name))?)
    }

    fn forget(&self, ino: u64, n: u64) {
        if is_control(ino) {
            return self.control.forget(ino, n);
        }
        let known = self.heat.has_records().then(|| self.node(ino).ok());
        let known = known.flatten().and_then(|node| self.heat.forgets(&node));
        if let Some(gone) = self.tree.nodes.give_back(ino, n) {
            if let Some(quotas) = &self.quotas {
                quotas.given_back(&gone);
            }
            if let Some(fd) = self.tree.descriptors.remove(ino) {
                self.tree.nodes.closer.close(fd, None);
            }
            known.inspect(|known| self.heat.forgotten(known));
        }
    }

    fn is_known(&self, ino: u64) -> bool {
        match is_control(ino) {
            true => self.control.is_known(ino),
            false => self.tree.nodes.has(ino),
        }
    }

    fn forget_all(&self) {
        self.control.forget_all();
        if let Some(quotas) = &self.quotas {
            quotas.close_all();
        }
        self.tree.nodes.clear();
    }

    fn getattr(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<Attr> {
        if is_control(ino) {
            return self.control.getattr(ino);
        }
        self.answer_on_the_way(caller, ino, |node| self.tree.getattr(node))
    }

    fn setattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        file: Option<&HostFile>,
        set: &SetAttr,
    ) -> VfsResult<Attr> {
        if is_control(ino) {
            let file = file.and_then(|file| match &file.0 {
                Opened::Control(file) => Some(&**file),
                Opened::Host(_) => None,
            });
            return self.control.setattr(caller, ino, file, set);
        }
        self.may_change(ino)?;
        let file = file.map(HostFile::host).transpose()?;
        self.answer(caller, ino, |node| {
            let attr = self.set_attributes(caller, node, file, set)?;
            self.heat.changed(node, &attr, set.size.is_some());
            Ok(attr)
        })
    }

    fn readlink(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<Box<[u8]>> {
        if is_control(ino) {
            return self.control.readlink(ino);
        }
        self.answer_on_the_way(caller, ino, |node| self.tree.readlink(node))
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
    ) -> VfsResult<Attr> {
        self.may_change(parent)?;
        self.answer(caller, parent, |parent| {
            let at = (parent, name);
            let made = self.make(caller, at, kind, || {
                self.tree.mknod(caller, at, kind, mode, rdev)
            })?;
            self.tell_made(caller, at, made.as_ref().ok());
            made
        })
    }

    fn mkdir(&self, caller: &Caller<'_>, parent: u64, name: &[u8], mode: u16) -> VfsResult<Attr> {
        self.may_change(parent)?;
        self.answer(caller, parent, |parent| {
            let made = self.make(caller, (parent, name), Kind::Directory, || {
                self.tree.mkdir(caller, parent, name, mode)
            })?;
            self.tell_made(caller, (parent, name), made.as_ref().ok());
            made
        })
    }

    fn symlink(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> VfsResult<Attr> {
        self.may_change(parent)?;
        self.answer(caller, parent, |parent| {
            let made = self.make(caller, (parent, name), Kind::Symlink, || {
                self.tree.symlink(caller, parent, name, target)
            })?;
            self.tell_made(caller, (parent, name), made.as_ref().ok());
            made
        })
    }

    fn link(&self, caller: &Caller<'_>, ino: u64, parent: u64, name: &[u8]) -> VfsResult<Attr> {
        self.may_change(ino)?;
        self.may_change(parent)?;
        self.answer(caller, parent, |parent| {
            let made = self.link_node(caller, &self.node(ino)?, parent, name)?;
            self.tell_made(caller, (parent, name), made.as_ref().ok());
            made
        })
    }

    fn unlink(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> VfsResult<()> {
        self.may_change(parent)?;
        self.remove(caller, parent, name, AtFlags::empty())
    }

    fn rmdir(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> VfsResult<()> {
        self.may_change(parent)?;
        self.remove(caller, parent, name, AtFlags::REMOVEDIR)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: u64,
        name: &[u8],
        to: u64,
        new_name: &[u8],
        flags: u32,
    ) -> VfsResult<()> {
        self.may_change(from)?;
        self.may_change(to)?;
        self.answer(caller, from, |from| {
            let to = self.node(to)?;
            let (from, to) = ((from, name), (&to, new_name));
            let before = self.before_rename(from, to);
            self.rename_name(caller, from, to, flags)?;
            self.tell_renamed(caller, (from, to), flags, before);
            Ok(())
        })
    }

    fn syncfs(&self) -> VfsResult<()> {
        syncfs(self.tree.root()).map_err(|error| Errno(error.raw_os_error()))?;
        Ok(self.make_kept_durable(true)?)
    }

    fn statfs(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<StatFs> {
        let ino = if is_control(ino) { ROOT } else { ino };
        self.answer_on_the_way(caller, ino, |node| self.room(node))
    }

    fn access(&self, caller: &Caller<'_>, ino: u64, mask: u32) -> VfsResult<()> {
        if is_control(ino) {
            return self.control.access(caller, ino, mask);
        }
        if mask & libc::W_OK as u32 != 0 {
            self.may_change(ino)?;
        }
        self.answer(caller, ino, |node| self.tree.access(caller, node, mask))
    }

    fn getxattr(&self, caller: &Caller<'_>, ino: u64, name: &[u8]) -> VfsResult<Box<[u8]>> {
        if is_control(ino) {
            return self.control.getxattr(caller, ino, name);
        }
        self.answer_on_the_way(caller, ino, |node| self.tree.getxattr(caller, node, name))
    }

    fn setxattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        name: &[u8],
        value: &[u8],
        flags: i32,
        kill_sgid: bool,
    ) -> VfsResult<()> {
        self.may_change(ino)?;
        self.answer(caller, ino, |node| {
            self.set_xattr(node, value.len(), || {
                self.tree.setxattr(
                    caller,
                    node,
                    name,
                    value,
                    flags,
                    SuidSgid::of_request(kill_sgid),
                )
            })
        })
    }

    fn listxattr(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<Vec<u8>> {
        if is_control(ino) {
            return self.control.listxattr(caller, ino);
        }
        self.answer(caller, ino, |node| self.tree.listxattr(caller, node))
    }

    fn removexattr(&self, caller: &Caller<'_>, ino: u64, name: &[u8]) -> VfsResult<()> {
        self.may_change(ino)?;
        self.answer(caller, ino, |node| {
            self.remove_xattr(node, || self.tree.removexattr(caller, node, name))
        })
    }

    fn get_flags(&self, ino: u64) -> VfsResult<u32> {
        if is_control(ino) {
            return self.control.get_flags(ino);
        }
        Ok(self.tree.get_flags(&self.node(ino)?)?)
    }

    fn set_flags(&self, caller: &Caller<'_>, ino: u64, flags: u32) -> VfsResult<()> {
        self.may_change(ino)?;
        Ok(self.set_plain_flags(caller, &self.node(ino)?, flags)?)
    }

    fn get_fsxattr(&self, ino: u64) -> VfsResult<FsXAttr> {
        if is_control(ino) {
            return self.control.get_fsxattr(ino);
        }
        Ok(self.flags_and_project(&self.node(ino)?)?)
    }

    fn set_fsxattr(&self, caller: &Caller<'_>, ino: u64, new: &FsXAttr) -> VfsResult<()> {
        self.may_change(ino)?;
        Ok(self.set_fsxattr_of(caller, &self.node(ino)?, new)?)
    }

    fn open(&self, caller: &Caller<'_>, ino: u64, flags: i32) -> VfsResult<Arc<HostFile>> {
        if is_control(ino) {
            let file = self.control.open(caller, ino, flags)?;
            return Ok(Arc::new(HostFile(Opened::Control(file))));
        }
        if flags & (libc::O_ACCMODE | libc::O_TRUNC) != libc::O_RDONLY {
            self.may_change(ino)?;
        }
        let open = |node: &Arc<Node>| self.open_file(caller, node, flags);
        let opened = self.answer(caller, ino, open);
        Ok(self.opened(self.refusal_counted(opened)?))
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        mode: u16,
        flags: i32,
    ) -> VfsResult<(Attr, Arc<HostFile>)> {
        self.may_change(parent)?;
        let create = |parent: &Arc<Node>| {
            let made = self.make_open(caller, (parent, name), || {
                self.tree.create(caller, (parent, name), mode, flags)
            })?;
            if made.as_ref().is_ok_and(|(_, file)| !file.is_new) {
                return made;
            }
            let attr = made.as_ref().ok().map(|(attr, _)| attr);
            self.tell_made(caller, (parent, name), attr);
            made
        };
        let made = self.answer(caller, parent, create);
        let (attr, file) = self.refusal_counted(made)?;
        Ok((attr, self.opened(file)))
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        mode: u16,
        flags: i32,
    ) -> VfsResult<(Attr, Arc<HostFile>)> {
        self.may_change(parent)?;
        let make = |parent: &Arc<Node>| {
            // One that cannot be told of is closed, and has no name.
            self.make_open(caller, (parent, b"".as_slice()), || {
                self.tree.tmpfile(caller, parent, mode, flags).map(Ok)
            })?
        };
        let made = self.answer(caller, parent, make);
        let (attr, file) = self.refusal_counted(made)?;
        Ok((attr, self.opened(file)))
    }

    fn read(&self, file: &HostFile, off: u64, out: &mut [u8]) -> VfsResult<usize> {
        match &file.0 {
            Opened::Host(file) => {
                let read = Tree::read(file, off, out)?;
                self.heat.read(file, off, read);
                Ok(read)
            }
            Opened::Control(file) => self.control.read(file, off, out),
        }
    }

    fn write(
        &self,
        caller: &Caller<'_>,
        file: &HostFile,
        place: WriteAt,
        data: &[u8],
        kill_suidgid: bool,
    ) -> VfsResult<usize> {
        match &file.0 {
            Opened::Host(file) => {
                self.may_change(file.node.number)?;
                let written = self.write_file(
                    caller,
                    file,
                    place,
                    data,
                    SuidSgid::of_request(kill_suidgid),
                )?;
                self.heat.wrote(file, place, written);
                Ok(written)
            }
            Opened::Control(file) => self.control.write(caller, file, place, data, kill_suidgid),
        }
    }

    /// Files of the host are opened by requests only.
    fn read_node(&self, _ino: u64, _off: u64, _out: &mut [u8]) -> VfsResult<usize> {
        Err(Errno::EBADF.into())
    }

    fn write_node(
        &self,
        _caller: &Caller<'_>,
        _ino: u64,
        _place: WriteAt,
        _data: &[u8],
        _kill_suidgid: bool,
    ) -> VfsResult<usize> {
        Err(Errno::EBADF.into())
    }

    fn flush(&self, file: &HostFile, owner: u64) -> VfsResult<()> {
        match &file.0 {
            Opened::Host(open) if open.is_writable() => Ok(self.tree.flush(open)?),
            Opened::Host(_) => Ok(()),
            Opened::Control(file) => self.control.flush(file, owner),
        }
    }

    fn release(&self, file: &HostFile, owner: Option<u64>) {
        match &file.0 {
            Opened::Host(file) => {
                self.heat.closes(file);
                file.close();
                self.settle_synced(file);
            }
            Opened::Control(file) => self.control.release(file, owner),
        }
    }

    fn fsync(&self, file: &HostFile, data_only: bool) -> VfsResult<()> {
        match &file.0 {
            Opened::Host(file) => {
                self.fsync_host(file, data_only)?;
                self.settle_synced(file);
                // The file is durable, and a program that is told otherwise gives up: what the
                // state directory cannot keep is for the log.
                let _ = self.make_kept_durable(true);
                Ok(())
            }
            Opened::Control(file) => self.control.fsync(file, data_only),
        }
    }

    fn readdir(
        &self,
        file: &HostFile,
        cookie: u64,
        f: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> VfsResult<()> {
        let file = match &file.0 {
            Opened::Host(file) => file,
            Opened::Control(file) => return self.control.readdir(file, cookie, f),
        };
        let fd = file.fd()?;
        let shown = |ino| self.tree.shown(file.node.id.dev, ino);
        // Nothing is known of what was removed meanwhile; its name is looked up before it is used.
        let kind_of = |name: &[u8]| {
            let found = self.tree.find(fd.as_fd(), name).ok();
            let kind = found.and_then(|found| crate::attributes::kind(&found.stat).ok());
            kind.unwrap_or(Kind::File)
        };
        let mut listing = file.listing.lock();
        Ok(listing.read(fd.as_fd(), cookie, shown, kind_of, f)?)
    }

    fn lseek(&self, file: &HostFile, off: i64, whence: i32) -> VfsResult<u64> {
        match &file.0 {
            Opened::Host(file) => Ok(Tree::lseek(file, off, whence)?),
            Opened::Control(file) => self.control.lseek(file, off, whence),
        }
    }

    fn fallocate(
        &self,
        caller: &Caller<'_>,
        file: &HostFile,
        mode: i32,
        off: u64,
        len: u64,
    ) -> VfsResult<()> {
        let file = file.host()?;
        self.may_change(file.node.number)?;
        Ok(self.allocate_range(caller, file, mode, (off, len))?)
    }

    /// The host allocates at once.
    fn allocates_in_parts(&self, _mode: i32) -> bool {
        false
    }

    fn check_allocate(&self, _file: &HostFile, _: i32, _: u64, _: u64) -> VfsResult<()> {
        Ok(())
    }

    fn check_copy(
        &self,
        _from: (&HostFile, u64),
        _to: (&HostFile, u64),
        len: u64,
    ) -> VfsResult<u64> {
        Ok(len)
    }

    fn copy_file_range(
        &self,
        caller: &Caller<'_>,
        (from, from_at): (&HostFile, u64),
        (to, to_at): (&HostFile, u64),
        len: u64,
        flags: u64,
    ) -> VfsResult<u64> {
        if flags != 0 {
            return Err(Errno::EINVAL.into());
        }
        let (from, to) = ((from.host()?, from_at), (to.host()?, to_at));
        self.may_change(to.0.node.number)?;
        let copied = self.copy_between(caller, from, to, len)?;
        self.heat.read(from.0, from.1, copied as usize);
        self.heat.wrote(to.0, WriteAt::At(to.1), copied as usize);
        Ok(copied)
    }

    /// The kernel has the locks to itself.
    fn getlk(&self, _: &HostFile, _: &LockRequest) -> VfsResult<Option<LockRequest>> {
        Err(Errno::ENOSYS.into())
    }

    fn setlk(&self, _: &HostFile, _: &LockRequest, _: Option<&Interrupt>) -> VfsResult<()> {
        Err(Errno::ENOSYS.into())
    }
}
