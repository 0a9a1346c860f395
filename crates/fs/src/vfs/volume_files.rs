//! Open files and what is done with them.

use super::sync_point::{SyncPoint, WhenDurable};
use super::volume::{KERNEL, VolumeVfs, take};
use super::wait_mode::WaitMode;
use crate::attr::{Attr, DirEntry};
use crate::caller::Caller;
use crate::errno::Errno;
use crate::flags;
use crate::inode::Inode;
use crate::locks::{Interrupt, LockRequest};
use crate::ops::io::WriteAt;
use crate::ops::list::{Progress, list};
use crate::ops::lookup::hashed;
use crate::ops::open::OpenFile;
use crate::ops::{io, lock, open, range};
use crate::superblock::Attempt;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::Arc;

impl<W: WaitMode> VolumeVfs<W> {
    /// [`crate::Vfs::open`].
    pub fn open(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        flags: i32,
    ) -> Result<Arc<OpenFile>, W::Error> {
        self.on(caller, ino, |cx, inode, g| open::open(cx, inode, flags, g))
    }

    /// [`crate::Vfs::create`].
    pub fn create(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        mode: u16,
        flags: i32,
    ) -> Result<(Attr, Arc<OpenFile>), W::Error> {
        self.on(caller, parent, |cx, parent, g| {
            let file: Arc<OpenFile> =
                open::open_create(cx, parent, hashed(cx, name), mode, flags, g)?;
            Ok((take(file.inode(g)?)?, file))
        })
    }

    /// [`crate::Vfs::tmpfile`].
    pub fn tmpfile(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        mode: u16,
        flags: i32,
    ) -> Result<(Attr, Arc<OpenFile>), W::Error> {
        self.on(caller, parent, |cx, parent, g| {
            let file: Arc<OpenFile> = open::open_tmpfile(cx, parent, mode, flags, g)?;
            Ok((take(file.inode(g)?)?, file))
        })
    }

    /// [`crate::Vfs::read`].
    pub fn read(&self, file: &OpenFile, off: u64, out: &mut [u8]) -> Result<usize, W::Error> {
        if !file.readable() {
            return Err(Errno::EBADF.into());
        }
        if let Some(control) = file.control() {
            return self.run(&KERNEL, |_, _| control.read(off, out));
        }
        let noatime = file.flags() & libc::O_NOATIME != 0;
        self.run(&KERNEL, |cx, g| {
            io::read(cx, file.inode(g)?, off, out, noatime, g)
        })
    }

    /// [`crate::Vfs::write`].
    pub fn write(
        &self,
        caller: &Caller<'_>,
        file: &OpenFile,
        place: WriteAt,
        data: &[u8],
        kill_suidgid: bool,
    ) -> Result<usize, W::Error> {
        if !file.writable() {
            return Err(Errno::EBADF.into());
        }
        if let Some(control) = file.control() {
            let off = place.offset(0);
            return self.run(caller, |cx, _| control.write(cx.sb, caller, off, data));
        }
        let appends = file.flags() & libc::O_APPEND != 0;
        let done = self.run(caller, |cx, g| {
            let inode = file.inode(g)?;
            let place = if appends {
                kept_end(inode, place)?
            } else {
                place
            };
            io::write(cx, inode, place, data, kill_suidgid, g)
        })?;
        Ok(done.1)
    }

    /// [`crate::Vfs::read_node`].
    pub fn read_node(&self, ino: u64, off: u64, out: &mut [u8]) -> Result<usize, W::Error> {
        self.on(&KERNEL, ino, |cx, inode, g| {
            io::read(cx, inode, off, out, false, g)
        })
    }

    /// [`crate::Vfs::write_node`].
    pub fn write_node(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        place: WriteAt,
        data: &[u8],
        kill_suidgid: bool,
    ) -> Result<usize, W::Error> {
        self.on(caller, ino, |cx, inode, g| {
            let place = kept_end(inode, place)?;
            io::write(cx, inode, place, data, kill_suidgid, g).map(|(_, len)| len)
        })
    }

    /// [`crate::Vfs::flush`].
    pub fn flush(&self, file: &OpenFile, owner: u64) -> Result<(), W::Error> {
        let g = pin();
        self.note_flushed(file);
        if let Some(locks) = file.inode(&g)?.taken_locks() {
            locks.release_owner(owner, false);
        }
        Ok(())
    }

    /// [`crate::Vfs::release`].
    pub fn release(&self, file: &OpenFile, owner: Option<u64>) {
        let g = pin();
        if file.writable() {
            // Without a flush too: a kernel that could not write back all that it kept sends none.
            self.note_flushed(file);
        }
        if let (Some(owner), Ok(inode)) = (owner, file.inode(&g))
            && let Some(locks) = inode.taken_locks()
        {
            locks.release_owner(owner, true);
        }
        file.finish(&self.volume.sb, &g);
    }

    /// [`crate::Vfs::fsync`].
    pub fn fsync(&self, file: &OpenFile, _data_only: bool) -> Result<(), W::Error> {
        let sb = &self.volume.sb;
        let held = {
            let g = pin();
            file.inode(&g)?.hold().ok_or(Errno::EBADF)?
        };
        self.note_flushed(file);
        // No epoch is pinned while the backend works: the reference keeps the inode.
        let synced = sb.fsync(&held);
        sb.release(held, &pin());
        Ok(synced?)
    }

    /// A kernel in front has written all of the file that it kept.
    fn note_flushed(&self, file: &OpenFile) {
        let log = self.volume.sb.log();
        log.inspect(|log| log.gaps.note_flushed(file.ino()));
    }

    /// [`crate::Vfs::is_durable_but_for_attrs`].
    pub fn is_durable_but_for_attrs(&self, file: &OpenFile) -> bool {
        let g = pin();
        let sb = &self.volume.sb;
        let inode = file.inode(&g);
        let is_written = inode.is_ok_and(|inode| sb.has_durable_contents(inode));
        drop(g);
        is_written && sb.is_durable_but_for_attrs(file.ino())
    }

    /// [`crate::Vfs::attr_changes`].
    pub fn attr_changes(&self, file: &OpenFile) -> Option<u32> {
        let g = pin();
        let inode = file.inode(&g);
        inode.ok().map(|inode| inode.meta.changes())
    }

    /// [`crate::Vfs::begin_fsync`].
    pub fn begin_fsync(&self, file: &OpenFile) -> Option<SyncPoint> {
        let g = pin();
        let sb = &self.volume.sb;
        let held = file.inode(&g).ok()?.hold()?;
        drop(g);
        self.note_flushed(file);
        let epoch = sb.begin_fsync(&held);
        sb.release(held, &pin());
        epoch.map(SyncPoint)
    }

    /// [`crate::Vfs::when_durable`].
    pub fn when_durable(&self, point: SyncPoint, then: WhenDurable) {
        self.volume.sb.when_committed(point.0, then);
    }

    /// [`crate::Vfs::readdir`].
    pub fn readdir(
        &self,
        file: &OpenFile,
        cookie: u64,
        f: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(), W::Error> {
        // A step that runs again goes on from the cookie that it has reached.
        let mut progress = Progress::behind(cookie);
        self.run(&KERNEL, |cx, g| {
            let noatime = file.flags() & libc::O_NOATIME != 0;
            list(cx, file.inode(g)?, &mut progress, noatime, &mut *f, g)
        })
    }

    /// [`crate::Vfs::lseek`].
    pub fn lseek(&self, file: &OpenFile, off: i64, whence: i32) -> Result<u64, W::Error> {
        let off = u64::try_from(off).map_err(|_| Errno::ENXIO)?;
        let hole = match whence {
            libc::SEEK_DATA => false,
            libc::SEEK_HOLE => true,
            _ => return Err(Errno::EINVAL.into()),
        };
        self.run(&KERNEL, |_, g| range::seek(file.inode(g)?, off, hole, g))
    }

    /// [`crate::Vfs::fallocate`].
    pub fn fallocate(
        &self,
        caller: &Caller<'_>,
        file: &OpenFile,
        mode: i32,
        off: u64,
        len: u64,
    ) -> Result<(), W::Error> {
        if !file.writable() {
            return Err(Errno::EBADF.into());
        }
        range::steps(mode, off, len).try_for_each(|step| {
            self.run(caller, |cx, g| {
                range::make_step(cx, file.inode(g)?, &step, g)
            })
        })
    }

    /// [`crate::Vfs::allocates_in_parts`].
    pub fn allocates_in_parts(&self, mode: i32) -> bool {
        range::is_parted(mode)
    }

    /// [`crate::Vfs::check_allocate`].
    pub fn check_allocate(
        &self,
        file: &OpenFile,
        mode: i32,
        off: u64,
        len: u64,
    ) -> Result<(), W::Error> {
        self.run(&KERNEL, |cx, g| {
            range::check_allocate(cx, file.inode(g)?, mode, off, len, g)
        })
    }

    /// [`crate::Vfs::check_copy`].
    pub fn check_copy(
        &self,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        len: u64,
    ) -> Result<u64, W::Error> {
        self.run(&KERNEL, |_, g| {
            let (source, target) = (from.0.inode(g)?, to.0.inode(g)?);
            range::check_copy((source, from.1), (target, to.1), len).map_err(Into::into)
        })
    }

    /// [`crate::Vfs::copy_file_range`].
    pub fn copy_file_range(
        &self,
        caller: &Caller<'_>,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        len: u64,
        flags: u64,
    ) -> Result<u64, W::Error> {
        if flags != 0 {
            return Err(Errno::EINVAL.into());
        }
        if !from.0.readable() || !to.0.writable() {
            return Err(Errno::EBADF.into());
        }
        if self.appends_only(to.0) {
            return Err(Errno::EPERM.into());
        }
        let noatime = from.0.flags() & libc::O_NOATIME != 0;
        let copying = range::Copying::new((from.1, to.1), len, noatime);
        copying.in_pieces(|copying| {
            self.run(caller, |cx, g| {
                range::copy(cx, from.0.inode(g)?, to.0.inode(g)?, copying, g)
            })
        })
    }

    /// [`crate::Vfs::getlk`].
    pub fn getlk(
        &self,
        file: &OpenFile,
        request: &LockRequest,
    ) -> Result<Option<LockRequest>, W::Error> {
        Ok(lock::get(&self.volume.sb, file, request)?)
    }

    /// [`crate::Vfs::setlk`].
    pub fn setlk(
        &self,
        file: &OpenFile,
        request: &LockRequest,
        wait: Option<&Interrupt>,
    ) -> Result<(), W::Error> {
        Ok(lock::set(&self.volume.sb, file, request, wait)?)
    }
}

pub(super) fn is_append_only(inode: &Inode) -> bool {
    inode.meta.flags() & flags::APPEND != 0
}

/// The target of a write. A write to an append-only file goes to its end. Such a file only grows:
/// an offset before the end now (`EPERM`) stays before it, and another becomes an `EndFrom`, which
/// follows the end.
fn kept_end(inode: &Inode, place: WriteAt) -> Attempt<WriteAt> {
    match place {
        WriteAt::At(_) if !is_append_only(inode) => Ok(place),
        WriteAt::At(off) if off < inode.meta.size() => Err(Errno::EPERM.into()),
        WriteAt::At(off) => Ok(WriteAt::EndFrom(off)),
        end => Ok(end),
    }
}
