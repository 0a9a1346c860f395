//! One directory of files that have a size and no contents.

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Names and attributes change by requests alone, so the kernel may keep them.
const FOR_EVER: Duration = Duration::from_secs(3600);
const BLOCK: u64 = 4096;
const ROOT: u64 = 1;
/// What a read gets.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// All files; each request looks at them once.
pub struct Flat(Mutex<Files>);

struct Files {
    names: HashMap<OsString, u64>,
    /// By number; those without a name go with it, open or not.
    sizes: HashMap<u64, u64>,
    last: u64,
    blocks: u64,
    free: u64,
}

impl Flat {
    /// With room for so many bytes.
    pub fn new(bytes: u64) -> Flat {
        let blocks = bytes / BLOCK;
        Flat(Mutex::new(Files {
            names: HashMap::new(),
            sizes: HashMap::new(),
            last: ROOT,
            blocks,
            free: blocks,
        }))
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    fn attr(&self, ino: u64) -> Result<FileAttr, Errno> {
        let size = match ino {
            ROOT => 0,
            ino => *self.sizes.get(&ino).ok_or(Errno::ENOENT)?,
        };
        Ok(attr(ino, size))
    }

    /// Gives a file another size, if there is room for it.
    fn resize(&mut self, ino: u64, size: u64) -> Result<(), Errno> {
        let known = self.sizes.get_mut(&ino).ok_or(Errno::ENOENT)?;
        let (had, needs) = (known.div_ceil(BLOCK), size.div_ceil(BLOCK));
        self.free = (self.free + had).checked_sub(needs).ok_or(Errno::ENOSPC)?;
        *known = size;
        Ok(())
    }
}

/// Attributes of the directory or of a file.
fn attr(ino: u64, size: u64) -> FileAttr {
    let (kind, perm) = match ino {
        ROOT => (FileType::Directory, 0o777),
        _ => (FileType::RegularFile, 0o644),
    };
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size.div_ceil(BLOCK) * (BLOCK / 512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK as u32,
        flags: 0,
    }
}

impl Filesystem for Flat {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // What this kernel does not offer is left out.
        let wanted = InitFlags::FUSE_PARALLEL_DIROPS | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
        if let Err(absent) = config.add_capabilities(wanted) {
            let _ = config.add_capabilities(wanted & !absent);
        }
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let files = self.files();
        let found = files.names.get(name).ok_or(Errno::ENOENT);
        match found.and_then(|&ino| files.attr(ino)) {
            Ok(found) => reply.entry(&FOR_EVER, &found, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.files().attr(ino.0) {
            Ok(found) => reply.attr(&FOR_EVER, &found),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut files = self.files();
        let resized = size.map_or(Ok(()), |size| files.resize(ino.0, size));
        match resized.and_then(|()| files.attr(ino.0)) {
            Ok(found) => reply.attr(&FOR_EVER, &found),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut files = self.files();
        files.last += 1;
        let ino = files.last;
        files.names.insert(name.to_owned(), ino);
        files.sizes.insert(ino, 0);
        drop(files);
        let (handle, flags) = (FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
        reply.created(&FOR_EVER, &attr(ino, 0), Generation(0), handle, flags);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
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
        let end = self.files().sizes.get(&ino.0).copied().unwrap_or(0);
        let left = end.saturating_sub(offset).min(u64::from(size));
        reply.data(&ZEROS[..ZEROS.len().min(left as usize)]);
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
        let mut files = self.files();
        let size = files.sizes.get(&ino.0).copied().unwrap_or(0);
        let written = files.resize(ino.0, size.max(offset + data.len() as u64));
        drop(files);
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Answered each time, as by whoever has locks.
        reply.ok();
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut files = self.files();
        let gone = files.names.remove(name);
        let size = gone.and_then(|ino| files.sizes.remove(&ino));
        files.free += size.unwrap_or(0).div_ceil(BLOCK);
        drop(files);
        match gone {
            Some(_) => reply.ok(),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let files = self.files();
        let (all, free) = (files.blocks, files.free);
        reply.statfs(all, free, free, all, free, BLOCK as u32, 255, BLOCK as u32);
    }
}
