//! The tree as a filesystem: each request is one call.

use super::answers::{FOR_EVER, answer, attr, attributes, kind, moment};
use super::counts::{Counters, Fault};
use super::node::Node;
use super::tree::{ROOT, Tree};
use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{FallocateFlags, FileType as Kind, fallocate};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// A tree that is shared with whoever cuts the power; none after that.
pub type Shared = Arc<Mutex<Option<Tree>>>;

/// What the kernel asks.
pub struct Server {
    pub tree: Shared,
    pub counters: Arc<Counters>,
    pub is_forgetful: bool,
    /// What each open directory held when it was opened, by its handle.
    pub lists: Mutex<BTreeMap<u64, Vec<Listed>>>,
}

/// One name of a directory.
pub type Listed = (OsString, u64, FileType);

impl Server {
    fn on<T>(&self, work: impl FnOnce(&mut Tree) -> io::Result<T>) -> Result<T, Errno> {
        let mut tree = lock(&self.tree);
        work(tree.as_mut().ok_or(Errno::EIO)?).map_err(Errno::from)
    }

    /// What would take room, or be written.
    fn takes_room(&self) -> Result<(), Errno> {
        match self.counters.fault() {
            Fault::None | Fault::Once => Ok(()),
            Fault::Broken => Err(Errno::EIO),
            Fault::Full => Err(Errno::ENOSPC),
        }
    }

    fn entry(&self, reply: ReplyEntry, work: impl FnOnce(&mut Tree) -> io::Result<u64>) {
        let found = self.on(|tree| {
            let number = work(tree)?;
            tree.node(number)?.held += 1;
            attributes(tree, number)
        });
        match found {
            Ok(found) => reply.entry(&FOR_EVER, &found, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn make(
        &self,
        reply: ReplyEntry,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        (mode, rdev): (u32, u32),
        target: Option<&Path>,
    ) {
        if let Err(error) = self.takes_room() {
            return reply.error(error);
        }
        let node = Node::new(mode, (request.uid(), request.gid()), rdev);
        self.entry(reply, |tree| tree.make(parent.0, name, node, target));
    }

    /// Syncs at once, or late in a thread of its own so that others are served meanwhile.
    fn sync(
        &self,
        reply: ReplyEmpty,
        work: impl FnOnce(&mut Tree) -> io::Result<()> + Send + 'static,
    ) {
        let (tree, delay) = (Arc::clone(&self.tree), self.counters.delay());
        let late = move || {
            std::thread::sleep(delay);
            let mut tree = lock(&tree);
            let done = tree.as_mut().ok_or(Errno::EIO);
            answer(reply, done.and_then(|tree| Ok(work(tree)?)));
        };
        if delay.is_zero() {
            late();
        } else {
            std::thread::spawn(late);
        }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A refusal names what is possible instead, which is as good.
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, |tree| tree.lookup(parent.0, name));
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        // Of one that is not there nothing is left to forget.
        let _ = self.on(|tree| {
            let node = tree.node(ino.0)?;
            node.held = node.held.saturating_sub(count);
            tree.drop_dead(ino.0);
            Ok(())
        });
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attr(reply, self.on(|tree| attributes(tree, ino.0)));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = self.on(|tree| {
            if let Some(size) = size {
                let (kept, unsynced) = tree.contents(ino.0)?;
                unsynced.resize(size);
                if !self.is_forgetful {
                    unsynced.keep_all(kept)?;
                }
            }
            let node = tree.node(ino.0)?;
            let mode = mode.map(|mode| (node.mode & 0o170_000) | (mode & 0o7777));
            node.mode = mode.unwrap_or(node.mode);
            node.uid = uid.unwrap_or(node.uid);
            node.gid = gid.unwrap_or(node.gid);
            node.accessed = atime.map_or(node.accessed, moment);
            node.modified = match size {
                Some(_) => SystemTime::now(),
                None => node.modified,
            };
            node.modified = mtime.map_or(node.modified, moment);

            tree.node(ino.0)?.changed = SystemTime::now();
            attributes(tree, ino.0)
        });
        attr(reply, changed);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.on(|tree| std::fs::read_link(tree.staged(ino.0))) {
            Ok(target) => reply.data(target.as_os_str().as_encoded_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.make(reply, request, (parent, name), (mode & !umask, rdev), None);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let mode = Kind::Directory.as_raw_mode() | (mode & 0o7777 & !umask);
        self.make(reply, request, (parent, name), (mode, 0), None);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.on(|tree| tree.unlink(parent.0, name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.on(|tree| tree.unlink(parent.0, name)));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let mode = Kind::Symlink.as_raw_mode() | 0o777;
        self.make(reply, request, (parent, name), (mode, 0), Some(target));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        let replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let (from, to) = ((parent.0, name), (newparent.0, newname));
        let done = self.on(|tree| tree.rename(from, to, exchange, replace));
        answer(reply, done);
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        self.entry(reply, |tree| {
            tree.link(ino.0, newparent.0, newname).map(|()| ino.0)
        });
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.on(|tree| {
            tree.contents(ino.0)?;
            tree.node(ino.0)?.opened += 1;
            Ok(())
        });
        match opened {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mode = Kind::RegularFile.as_raw_mode() | (mode & 0o7777 & !umask);
        let made = self.takes_room().and_then(|()| {
            self.on(|tree| {
                let node = Node::new(mode, (request.uid(), request.gid()), 0);
                let number = tree.make(parent.0, name, node, None)?;
                let node = tree.node(number)?;
                (node.held, node.opened) = (1, 1);
                attributes(tree, number)
            })
        });
        match made {
            Ok(made) => {
                let keep = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&FOR_EVER, &made, Generation(0), FileHandle(0), keep);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = self.on(|tree| {
            let (kept, unsynced) = tree.contents(ino.0)?;
            unsynced.read(kept, offset, size as usize)
        });
        match bytes {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.counters.wrote(data.len() as u64);
        let fault = self.counters.fault_of_write();
        let written = self.on(|tree| {
            let (kept, unsynced) = tree.contents(ino.0)?;
            match fault {
                Fault::None | Fault::Once => (),
                Fault::Full if offset + data.len() as u64 <= unsynced.size() => (),
                Fault::Full => return Err(rustix::io::Errno::NOSPC.into()),
                Fault::Broken => return Err(rustix::io::Errno::IO.into()),
            }
            if self.is_forgetful {
                unsynced.write(kept, offset, data)?;
            } else {
                kept.write_all_at(data, offset)?;
                unsynced.has_grown(offset + data.len() as u64);
            }
            let node = tree.node(ino.0)?;
            node.modified = SystemTime::now();
            node.changed = node.modified;
            Ok(())
        });
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // It is not asked again.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let done = self.on(|tree| {
            let node = tree.node(ino.0)?;
            node.opened -= 1;
            if node.opened == 0 {
                tree.close(ino.0);
            }
            tree.drop_dead(ino.0);
            Ok(())
        });
        answer(reply, done);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.counters.synced();
        let (is_forgetful, fault) = (self.is_forgetful, self.counters.fault());
        self.sync(reply, move |tree| match fault {
            Fault::Broken => {
                let (kept, unsynced) = tree.contents(ino.0)?;
                unsynced.discard(kept)?;
                Err(rustix::io::Errno::IO.into())
            }
            _ if is_forgetful => tree.sync_file(ino.0),
            _ => Ok(()),
        });
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.counters.synced_directory();
        let fault = self.counters.fault();
        self.sync(reply, move |tree| match fault {
            Fault::Broken => Err(rustix::io::Errno::IO.into()),
            _ => tree.sync_directory(ino.0),
        });
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let listed = self.on(|tree| {
            let directory = tree.directory(ino.0)?;
            let seen = directory.seen.iter().map(|(name, &n)| (name.clone(), n));
            let own = [(".", ino.0), ("..", directory.parent.max(ROOT))];
            let own = own.map(|(name, n)| (name.into(), n));
            own.into_iter()
                .chain(seen.collect::<Vec<_>>())
                .map(|(name, number)| Ok((name, number, kind(tree.node(number)?.mode))))
                .collect::<io::Result<Vec<_>>>()
        });
        match listed {
            Ok(listed) => {
                let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
                let handle = lists.keys().last().map_or(1, |last| last + 1);
                lists.insert(handle, listed);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = lists.get(&handle.0).into_iter().flatten().enumerate();
        for (at, (name, number, kind)) in listed.skip(offset as usize) {
            if reply.add(INodeNo(*number), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.on(|tree| Ok(rustix::fs::statvfs(tree.below())?)) {
            Ok(s) => reply.statfs(
                s.f_blocks,
                s.f_bfree,
                s.f_bavail,
                s.f_files,
                s.f_ffree,
                s.f_bsize as u32,
                s.f_namemax as u32,
                s.f_frsize as u32,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let zeroes = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        let known = zeroes | FallocateFlags::KEEP_SIZE;
        if !known.contains(flags) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let fault = self.counters.fault();
        let done = self.on(|tree| {
            let (kept, unsynced) = tree.contents(ino.0)?;
            match fault {
                Fault::Broken => return Err(rustix::io::Errno::IO.into()),
                Fault::Full if !flags.intersects(zeroes) => {
                    return Err(rustix::io::Errno::NOSPC.into());
                }
                _ => (),
            }
            if !self.is_forgetful {
                fallocate(kept, flags, offset, length)?;
                unsynced.has_grown(kept.metadata()?.len());
                return Ok(());
            }
            if !flags.contains(FallocateFlags::KEEP_SIZE) && offset + length > unsynced.size() {
                unsynced.resize(offset + length);
            }
            if flags.intersects(zeroes) {
                unsynced.zero(kept, offset, length)?;
            }
            Ok(())
        });
        answer(reply, done);
    }
}

/// The tree, whoever panicked.
pub fn lock(tree: &Shared) -> MutexGuard<'_, Option<Tree>> {
    tree.lock().unwrap_or_else(PoisonError::into_inner)
}
