//! The requests: one call of the vfs each.

use crate::convert::{
    caller, empty, error, file_attr, file_type, set_time, since_epoch, value_or_size,
};
use crate::peer::Peer;
use fuser::{
    FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use hearth::{Errno, Kind, OpenFile, SetAttr, WriteAt};
use hearth_fuse::ReadDirPlus;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

impl Filesystem for Peer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let mut wanted = InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_DONT_MASK
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_POSIX_ACL
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_EXPLICIT_INVAL_DATA
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
        if self.writeback() {
            wanted |= InitFlags::FUSE_WRITEBACK_CACHE;
        }
        let readdirplus = self.options.agreed_readdirplus();
        if readdirplus != ReadDirPlus::No {
            wanted |= InitFlags::FUSE_DO_READDIRPLUS;
        }
        if readdirplus == ReadDirPlus::Auto {
            wanted |= InitFlags::FUSE_READDIRPLUS_AUTO;
        }
        // What this kernel does not offer is left out.
        if let Err(absent) = config.add_capabilities(wanted) {
            let _ = config.add_capabilities(wanted & !absent);
        }
        let _ = config.set_max_write(self.options.max_write);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(
            self.vfs
                .lookup(&caller(request, 0), parent.0, name.as_bytes()),
            reply,
        );
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        self.vfs.forget(ino.0, count);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.vfs.getattr(ino.0) {
            Ok(attr) => reply.attr(&self.options.attr_timeout, &file_attr(&attr)),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttr {
            mode: mode.map(|mode| (mode & 0o7777) as u16),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            ctime: ctime.map(since_epoch),
            // The bit that asks for it does not get through.
            kill_suidgid: size.is_some() || uid.is_some() || gid.is_some(),
        };
        let caller = caller(request, 0);
        let result = match handle {
            Some(handle) => self.on(handle, |file| {
                self.vfs.setattr(&caller, ino.0, Some(file), &set)
            }),
            None => self.vfs.setattr(&caller, ino.0, None, &set),
        };
        match result {
            Ok(attr) => reply.attr(&self.options.attr_timeout, &file_attr(&attr)),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.vfs.readlink(ino.0) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(error(errno)),
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
        let Some(kind) = Kind::from_mode(mode) else {
            return reply.error(error(Errno::EINVAL));
        };
        let (caller, mode) = (caller(request, umask), (mode & 0o7777) as u16);
        let made = self
            .vfs
            .mknod(&caller, parent.0, name.as_bytes(), kind, mode, rdev);
        self.entry(made, reply);
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
        let (caller, mode) = (caller(request, umask), (mode & 0o7777) as u16);
        self.entry(
            self.vfs.mkdir(&caller, parent.0, name.as_bytes(), mode),
            reply,
        );
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(
            self.vfs
                .unlink(&caller(request, 0), parent.0, name.as_bytes()),
            reply,
        );
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(
            self.vfs
                .rmdir(&caller(request, 0), parent.0, name.as_bytes()),
            reply,
        );
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (caller, target) = (caller(request, 0), target.as_os_str().as_bytes());
        self.entry(
            self.vfs.symlink(&caller, parent.0, name.as_bytes(), target),
            reply,
        );
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (caller, flags) = (caller(request, 0), flags.bits());
        let (name, new_name) = (name.as_bytes(), new_name.as_bytes());
        empty(
            self.vfs
                .rename(&caller, parent.0, name, new_parent.0, new_name, flags),
            reply,
        );
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let made = self
            .vfs
            .link(&caller(request, 0), ino.0, parent.0, name.as_bytes());
        self.entry(made, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.vfs.open(&caller(request, 0), ino.0, flags.0) {
            Ok(file) => reply.opened(self.insert(file), self.keep()),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (caller, mode) = (caller(request, umask), (mode & 0o7777) as u16);
        match self
            .vfs
            .create(&caller, parent.0, name.as_bytes(), mode, flags)
        {
            Ok((attr, file)) => reply.created(
                &self.options.entry_timeout,
                &file_attr(&attr),
                Generation(u64::from(attr.generation)),
                self.insert(file),
                self.keep(),
            ),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut buffer = vec![0; size as usize];
        match self.on(handle, |file| self.vfs.read(file, offset, &mut buffer)) {
            Ok(size) => reply.data(&buffer[..size]),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let caller = caller(request, 0);
        let kill = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let result = if write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            let touches = !self.writeback();
            self.vfs
                .write_back(&caller, ino.0, offset, data, kill, touches)
        } else {
            let place = match flags.0 & libc::O_APPEND {
                0 => WriteAt::At(offset),
                _ => WriteAt::End,
            };
            self.on(handle, |file| {
                let size = self.vfs.write(&caller, file, place, data, kill)?;
                if file.is_synchronous() {
                    self.vfs.fsync(file, false)?;
                }
                Ok(size)
            })
        };
        match result {
            Ok(size) => reply.written(size as u32),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn flush(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        empty(self.on(handle, |file| self.vfs.flush(file, owner.0)), reply);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.close(handle);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data: bool, reply: ReplyEmpty) {
        empty(self.on(handle, |file| self.vfs.fsync(file, data)), reply);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self
            .vfs
            .open(&caller(request, 0), ino.0, flags.0 | libc::O_DIRECTORY)
        {
            Ok(file) => {
                let flags = match self.options.direct_io {
                    true => FopenFlags::empty(),
                    false => FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR,
                };
                reply.opened(self.insert(file), flags);
            }
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectory,
    ) {
        let result = self.on(handle, |file| {
            self.vfs.readdir(file, cookie, &mut |entry| {
                let name = OsStr::from_bytes(entry.name);
                !reply.add(
                    INodeNo(entry.ino),
                    entry.cookie,
                    file_type(entry.kind),
                    name,
                )
            })
        });
        match result {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let mut entries = Vec::new();
        let result = self.on(handle, |file| {
            self.vfs.readdir(file, cookie, &mut |entry| {
                entries.push((entry.ino, entry.cookie, entry.name.to_vec()));
                entries.len() < 32
            })
        });
        if let Err(errno) = result {
            return reply.error(error(errno));
        }
        for (ino, cookie, name) in entries {
            let dots = matches!(name.as_slice(), b"." | b"..");
            let attr = if dots {
                self.vfs.getattr(ino)
            } else {
                self.vfs.grab(ino)
            };
            let Ok(attr) = attr else { continue };
            let (ttl, generation) = (
                &self.options.entry_timeout,
                Generation(attr.generation.into()),
            );
            let name = OsStr::from_bytes(&name);
            if reply.add(
                INodeNo(ino),
                cookie,
                name,
                ttl,
                &file_attr(&attr),
                generation,
            ) {
                if !dots {
                    self.vfs.forget(ino, 1);
                }
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
        self.close(handle);
        reply.ok();
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        match self.vfs.statfs(ino.0) {
            Ok(st) => reply.statfs(
                st.blocks, st.bfree, st.bavail, st.files, st.ffree, st.bsize, st.namelen, st.frsize,
            ),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let (caller, name) = (caller(request, 0), name.as_bytes());
        empty(
            self.vfs.setxattr(&caller, ino.0, name, value, flags, false),
            reply,
        );
    }

    fn getxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        match self
            .vfs
            .getxattr(&caller(request, 0), ino.0, name.as_bytes())
        {
            Ok(value) => value_or_size(&value, size, reply),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        match self.vfs.listxattr(&caller(request, 0), ino.0) {
            Ok(names) => value_or_size(&names, size, reply),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(
            self.vfs
                .removexattr(&caller(request, 0), ino.0, name.as_bytes()),
            reply,
        );
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let caller = caller(request, 0);
        let work = |file: &OpenFile| self.vfs.fallocate(&caller, file, mode, offset, length);
        empty(self.on(handle, work), reply);
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.on(handle, |file| self.vfs.lseek(file, offset, whence)) {
            Ok(offset) => reply.offset(offset as i64),
            Err(errno) => reply.error(error(errno)),
        }
    }
}
