//! Open files and what is done with them.

use super::{Door, KERNEL, take};
use crate::attr::{Attr, DirEntry};
use crate::caller::Caller;
use crate::errno::{Errno, Result};
use crate::flags;
use crate::inode::Inode;
use crate::locks::{Interrupt, LockRequest};
use crate::ops::io::WriteAt;
use crate::ops::open::OpenFile;
use crate::ops::{io, list, lock, open, privilege, range, reserve};
use hearth_sync::epoch::pin;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{Ordering, fence};

impl Door {
    /// Opens an inode; `flags` are `O_*`. Give it back with [`Door::release`].
    pub fn open(&self, caller: &Caller<'_>, ino: u64, flags: i32) -> Result<Arc<OpenFile>> {
        self.on(caller, ino, |cx, inode, g| {
            open::open(cx, inode, flags, g).map(Arc::new)
        })
    }

    /// Makes and opens a file.
    pub fn create(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        mode: u16,
        flags: i32,
    ) -> Result<(Attr, Arc<OpenFile>)> {
        self.on(caller, parent, |cx, parent, g| {
            let file = open::open_create(cx, parent, name, mode, flags, g)?;
            Ok((take(file.inode(g)?)?, Arc::new(file)))
        })
    }

    /// Makes and opens a file without a name.
    pub fn tmpfile(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        mode: u16,
        flags: i32,
    ) -> Result<(Attr, Arc<OpenFile>)> {
        self.on(caller, parent, |cx, parent, g| {
            let file = open::open_tmpfile(cx, parent, mode, flags, g)?;
            Ok((take(file.inode(g)?)?, Arc::new(file)))
        })
    }

    /// Reads at `off`; answers the bytes read.
    pub fn read(&self, file: &OpenFile, off: u64, out: &mut [u8]) -> Result<usize> {
        if !file.readable() {
            return Err(Errno::EBADF);
        }
        if let Some(control) = file.control() {
            return self.run(&KERNEL, |_, _| control.read(off, out));
        }
        let noatime = file.flags() & libc::O_NOATIME != 0;
        self.run(&KERNEL, |cx, g| {
            io::read(cx, file.inode(g)?, off, out, noatime, g)
        })
    }

    /// For a kernel in front: whether it must pass on each read and write of `file`, which was
    /// opened just now, because a quota may refuse what it would acknowledge by itself. A front end
    /// that shows open files as [`crate::Observer::collecting`] shows this one before it asks.
    pub fn charges_first(&self, file: &OpenFile) -> bool {
        let g = pin();
        let Ok(inode) = file.inode(&g) else {
            return false;
        };
        if !file.writable() {
            return reserve::has_writers(inode);
        }
        // Partner: a first limit (`quotactl/collecting.rs`). The front end has noted the file down:
        // either that finds it, or it is seen here that it was announced.
        fence(Ordering::SeqCst);
        let add_writer = || reserve::add_writer(&self.volume.sb, inode);
        // Again if the first charged one came in between: it opens as that did.
        let is_charged = add_writer() || reserve::has_writers(inode) && add_writer();
        if is_charged {
            file.set_charged();
        }
        is_charged
    }

    /// [`Door::read`] of what goes into a kernel's cache, where a mapping of a file that
    /// [`Door::charges_first`] may change it: `EDQUOT` or `ENOSPC` if it can be written to and
    /// there is no room for its holes.
    pub fn read_for_cache(&self, file: &OpenFile, off: u64, out: &mut [u8]) -> Result<usize> {
        let room = self.run(&KERNEL, |cx, g| {
            let inode = file.inode(g)?;
            // The open of a writer was answered before a page is read through it.
            match reserve::has_writers(inode) {
                true => reserve::reserve(cx, inode, off, out.len(), g),
                false => Ok(()),
            }
        });
        match room {
            // Who only looks is not refused.
            Err(Errno::EDQUOT | Errno::ENOSPC) if !file.writable() => {}
            done => done?,
        }
        self.read(file, off, out)
    }

    /// Whether only the end of `file` may be written to, whatever its flags are by now: it was
    /// opened for appending, and is append-only. Linux lets nobody clear `O_APPEND` then, which a
    /// kernel in front of the volume does not know.
    pub fn appends_only(&self, file: &OpenFile) -> bool {
        file.writable()
            && file.flags() & libc::O_APPEND != 0
            && file.inode(&pin()).is_ok_and(is_append_only)
    }

    /// Setuid and setgid go from a file whose contents `caller` is about to change, who is not
    /// root: whether there were any. A kernel in front goes by the mode that it has, and does not
    /// expect a change of contents to change it: so it is told before there are other contents to
    /// run.
    pub fn strip_suidgid(&self, caller: &Caller<'_>, ino: u64) -> Result<bool> {
        self.on(caller, ino, |cx, inode, g| {
            if !privilege::has_suidgid(inode) || !io::is_changeable(cx, inode) {
                return Ok(false);
            }
            let _kept = cx.pin_inode(inode, g)?;
            Ok(privilege::strip_suidgid(cx.caller, inode))
        })
    }

    /// Writes where the flags that the kernel has of the file say; answers the bytes written.
    ///
    /// # Errors
    /// `EPERM` before the end of a file that [`Door::appends_only`].
    pub fn write(
        &self,
        caller: &Caller<'_>,
        file: &OpenFile,
        place: WriteAt,
        data: &[u8],
        kill_suidgid: bool,
    ) -> Result<usize> {
        if !file.writable() {
            return Err(Errno::EBADF);
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
        if file.is_synchronous() {
            self.fsync(file, false)?;
        }
        Ok(done.1)
    }

    /// [`Door::read`] without an open file, for front ends that do not open.
    pub fn read_node(&self, ino: u64, off: u64, out: &mut [u8]) -> Result<usize> {
        self.on(&KERNEL, ino, |cx, inode, g| {
            io::read(cx, inode, off, out, false, g)
        })
    }

    /// [`Door::write`] without an open file: nobody knows with which flags it was opened, and an
    /// append-only one is written to at its end.
    pub fn write_node(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        place: WriteAt,
        data: &[u8],
        kill_suidgid: bool,
    ) -> Result<usize> {
        self.on(caller, ino, |cx, inode, g| {
            let place = kept_end(inode, place)?;
            io::write(cx, inode, place, data, kill_suidgid, g).map(|(_, len)| len)
        })
    }

    /// Writes what a kernel in front has acknowledged before, also to a file that has become
    /// immutable since, and to a volume that has become read-only. A kernel that keeps times itself
    /// (`!touches`) says by [`Door::settle_times`] when it was written, and may do so before.
    pub fn write_back(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        off: u64,
        data: &[u8],
        kill_suidgid: bool,
        touches: bool,
    ) -> Result<usize> {
        self.on(caller, ino, |cx, inode, g| {
            let place = WriteAt::At(off);
            let done = io::write_acknowledged(cx, inode, place, data, kill_suidgid, touches, g)?;
            Ok(done.1)
        })
    }

    /// A descriptor was closed: the record locks of `owner` go.
    pub fn flush(&self, file: &OpenFile, owner: u64) -> Result<()> {
        let g = pin();
        if let Some(locks) = file.inode(&g)?.taken_locks() {
            locks.release_owner(owner, false);
        }
        Ok(())
    }

    /// The last close; `owner` held flocks through this file.
    pub fn release(&self, file: &OpenFile, owner: Option<u64>) {
        let g = pin();
        if let (Some(owner), Ok(inode)) = (owner, file.inode(&g))
            && let Some(locks) = inode.taken_locks()
        {
            locks.release_owner(owner, true);
        }
        file.finish(&self.volume.sb, &g);
    }

    /// Returns when the file's contents, and unless `data_only` its attributes, are durable.
    pub fn fsync(&self, file: &OpenFile, _data_only: bool) -> Result<()> {
        let sb = &self.volume.sb;
        let held = {
            let g = pin();
            file.inode(&g)?.hold().ok_or(Errno::EBADF)?
        };
        // Nothing is pinned while the backend takes its time: the reference keeps the inode.
        let saved = sb.save(&held);
        sb.release(held, &pin());
        saved.and_then(|()| sb.objects.backend.sync())
    }

    /// Entries after `cookie`, `.` and `..` first, until `f` answers false for one, which then was
    /// not taken.
    pub fn readdir(
        &self,
        file: &OpenFile,
        cookie: u64,
        f: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        // A step that is run again goes on where it was.
        let mut reached = cookie;
        self.run(&KERNEL, |cx, g| {
            let noatime = file.flags() & libc::O_NOATIME != 0;
            let (from, reached) = (reached, &mut reached);
            let each = |entry: DirEntry<'_>| {
                let at = entry.cookie;
                let is_taken = f(entry);
                if is_taken {
                    *reached = at;
                }
                is_taken
            };
            list::list(cx, file.inode(g)?, from, noatime, each, g)
        })
    }

    /// Next data or hole at or after `off`; `whence` is `SEEK_DATA` or `SEEK_HOLE`.
    pub fn lseek(&self, file: &OpenFile, off: i64, whence: i32) -> Result<u64> {
        let off = u64::try_from(off).map_err(|_| Errno::ENXIO)?;
        let hole = match whence {
            libc::SEEK_DATA => false,
            libc::SEEK_HOLE => true,
            _ => return Err(Errno::EINVAL),
        };
        self.run(&KERNEL, |_, g| range::seek(file.inode(g)?, off, hole, g))
    }

    /// `fallocate(2)`.
    pub fn fallocate(
        &self,
        caller: &Caller<'_>,
        file: &OpenFile,
        mode: i32,
        off: u64,
        len: u64,
    ) -> Result<()> {
        if !file.writable() {
            return Err(Errno::EBADF);
        }
        self.run(caller, |cx, g| {
            range::fallocate(cx, file.inode(g)?, mode, off, len, g)
        })
    }

    /// Whether a [`Door::fallocate`] of a long range can as well be several of its parts: other
    /// modes take away what there is, move what lies behind, or have the backend forget the file.
    pub fn allocates_in_parts(&self, mode: i32) -> bool {
        range::is_parted(&self.volume.sb, mode)
    }

    /// Why an allocation of this range cannot be, if that is known before it is begun: it may not
    /// be, or there is no room for it.
    pub fn check_allocate(&self, file: &OpenFile, mode: i32, off: u64, len: u64) -> Result<()> {
        self.run(&KERNEL, |cx, g| {
            range::check_allocate(cx, file.inode(g)?, mode, off, len, g)
        })
    }

    /// How much of `len` bytes a copy from here to there would do at most, or why it is none.
    pub fn check_copy(
        &self,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        len: u64,
    ) -> Result<u64> {
        self.run(&KERNEL, |_, g| {
            let (source, target) = (from.0.inode(g)?, to.0.inode(g)?);
            range::check_copy((source, from.1), (target, to.1), len).map_err(Into::into)
        })
    }

    /// Copies between files; answers the bytes copied. A kernel has refused a target with
    /// `O_APPEND`.
    pub fn copy_file_range(
        &self,
        caller: &Caller<'_>,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        len: u64,
        flags: u64,
    ) -> Result<u64> {
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        if !from.0.readable() || !to.0.writable() {
            return Err(Errno::EBADF);
        }
        if self.appends_only(to.0) {
            return Err(Errno::EPERM);
        }
        let noatime = from.0.flags() & libc::O_NOATIME != 0;
        let copying = range::Copying::new((from.1, to.1), len, noatime);
        copying.in_pieces(|copying| {
            self.run(caller, |cx, g| {
                range::copy(cx, from.0.inode(g)?, to.0.inode(g)?, copying, g)
            })
        })
    }

    /// The lock that is in the way of `request`, if any.
    pub fn getlk(&self, file: &OpenFile, request: &LockRequest) -> Result<Option<LockRequest>> {
        lock::get(&self.volume.sb, file, request)
    }

    /// Takes or gives back a lock. Without `wait` a conflict is `EAGAIN`; with it the calling
    /// thread waits.
    pub fn setlk(
        &self,
        file: &OpenFile,
        request: &LockRequest,
        wait: Option<&Interrupt>,
    ) -> Result<()> {
        lock::set(&self.volume.sb, file, request, wait)
    }
}

fn is_append_only(inode: &Inode) -> bool {
    inode.meta.flags() & flags::APPEND != 0
}

/// Where a write goes to a file that, if it is append-only, is written to at its end: it only ever
/// grows, so what is not before its end now stays what it is.
fn kept_end(inode: &Inode, place: WriteAt) -> Result<WriteAt> {
    match place {
        WriteAt::At(_) if !is_append_only(inode) => Ok(place),
        WriteAt::At(off) if off < inode.meta.size() => Err(Errno::EPERM),
        WriteAt::At(off) => Ok(WriteAt::EndFrom(off)),
        end => Ok(end),
    }
}
