//! Open files: opening, reading, writing, closing, making durable.

use crate::dispatch::handles::Handle;
use crate::dispatch::kernel_cache::cached_mtime::TICK_NS;
use crate::dispatch::kernel_cache::direct_writes::writes_directly;
use crate::dispatch::ops::durable_writes::asked_sync;
use crate::dispatch::{Context, Dispatcher, OpResult};
use crate::wait::outcome::{BlockingClass, InlineReply, Offload, Outcome, WaitFor};
use crate::wire::reply::Reply;
use crate::wire::{
    FSYNC_FDATASYNC, FlushIn, FsyncIn, OPEN_KILL_SUIDGID, OpenIn, OpenOut, READ_LOCKOWNER,
    RELEASE_FLOCK_UNLOCK, ReadIn, ReleaseIn, WRITE_CACHE, WRITE_KILL_SUIDGID, WriteIn, WriteOut,
    fopen,
};
use hearth::{Caller, Errno, KernelCache, VfsError, VfsFile, VfsResult, WriteAt};
use hearth_sync::primitive::Arc;
use std::ops::Range;
use std::time::Instant;

/// Bytes of a read for the kernel's cache from which on they are not kept here too.
const THROUGH_LEAST: u32 = 128 << 10;

impl<V: KernelCache> Dispatcher<V> {
    pub(crate) fn open(&self, cx: &Context<'_>, args: &OpenIn, reply: &mut Reply<'_>) -> OpResult {
        if self.settings.no_open {
            return Err(Errno(libc::ENOSYS).into());
        }
        // Of a program that runs the kernel refuses the cut only when the file was opened, and cut.
        // It refuses an open for writing before.
        if args.flags as i32 & (libc::O_ACCMODE | libc::O_TRUNC) == libc::O_TRUNC {
            let executes = match cx.attempt.may_block {
                true => self.handles.goes_on_executing(cx.ino()),
                false => self.handles.executes(cx.ino()),
            };
            if executes && cx.attempt.again && !cx.attempt.may_block {
                // One that has ended may not have been closed yet, which the kernel tells of later.
                return Ok(Outcome::Wait(WaitFor::Thread));
            }
            if executes {
                return Err(Errno(libc::ETXTBSY).into());
            }
        }
        let caller = cx.caller(0);
        let file = self.vfs.open(&caller, cx.ino(), args.flags as i32)?;
        if args.open_flags & OPEN_KILL_SUIDGID != 0
            && let Err(errno) = self.strip_suidgid(&caller, cx.ino())
        {
            // Nobody will close what nobody has opened.
            self.vfs.release(&file, None);
            return Err(errno);
        }
        let opened = self.opened(&caller, file);
        if opened.open_flags & fopen::PASSTHROUGH != 0 {
            self.drop_attributes(cx.ino());
        }
        reply.push(&opened)?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn read(&self, cx: &Context<'_>, args: &ReadIn, reply: &mut Reply<'_>) -> OpResult {
        let (vfs, at) = (&self.vfs, args.offset);
        let is_for_cache = args.read_flags & READ_LOCKOWNER == 0;
        // The kernel keeps what it has read: large parts of a file need not be kept here as well.
        let may_pass = is_for_cache && args.size >= THROUGH_LEAST;
        if is_for_cache {
            self.direct_writes.reads_pages(cx.ino());
        }
        let read = reply.fill(args.size as usize, |buffer| {
            let slot = std::cell::RefCell::new(buffer);
            self.on_file(
                args.fh,
                |file| match is_for_cache {
                    true if may_pass && cx.attempt.may_block => {
                        vfs.read_through(file, at, &mut slot.borrow_mut())
                    }
                    true => vfs.read_for_cache(file, at, &mut slot.borrow_mut()),
                    false => vfs.read(file, at, &mut slot.borrow_mut()),
                },
                || vfs.read_node(cx.ino(), at, &mut slot.borrow_mut()),
            )
        });
        match read {
            Err(VfsError::Miss(miss))
                if may_pass && miss.is_page() && cx.attempt.again && !cx.attempt.may_block =>
            {
                Ok(Outcome::Wait(WaitFor::Thread))
            }
            read => Ok(Outcome::Done(read?)),
        }
    }

    pub(crate) fn write(
        &self,
        cx: &Context<'_>,
        args: &WriteIn,
        data: &[u8],
        reply: &mut Reply<'_>,
    ) -> OpResult {
        if args.write_flags & WRITE_CACHE != 0 {
            return self.write_back(cx, args, data, reply);
        }
        let (caller, kill) = (cx.caller(0), args.write_flags & WRITE_KILL_SUIDGID != 0);
        let (ino, done, handle) = (cx.ino(), cx.attempt.written, args.fh);
        let is_direct = args.flags as i32 & libc::O_DIRECT != 0;
        let (place, rest) = (self.place(args, args.offset + done as u64), &data[done..]);
        let strip = || match kill {
            true => self.strip_suidgid(&caller, ino),
            false => Ok(()),
        };
        let written = self.on_file(
            handle,
            |file| {
                self.pass_on(handle, ino)?;
                strip()?;
                let size = self.vfs.write(&caller, file, place, rest, kill)?;
                if !self.vfs.sync_waits()
                    && let Some(data_only) = asked_sync(file, args)
                {
                    // Nobody waits for this thread, or nothing is waited for.
                    self.vfs.fsync(file, data_only)?;
                }
                Ok(size)
            },
            || {
                strip()?;
                self.vfs.write_node(&caller, ino, place, rest, kill)
            },
        );
        let size = match written {
            Ok(size) => done + size,
            // The rest is attempted again from its data, which a reply would lie upon.
            Err(error) if done == 0 || matches!(error, VfsError::Miss(_)) => return Err(error),
            // Whatever keeps the rest from being written, a part was.
            Err(_) => done,
        };
        if size < data.len() && cx.attempt.again {
            // Nothing was put into the reply: its memory may be where the rest of the data is.
            return Ok(Outcome::Wait(WaitFor::Space(size)));
        }
        let written = WriteOut {
            size: size as u32,
            padding: 0,
        };
        if size > 0 && self.vfs.sync_waits() && self.is_durable_write(args) {
            return self.written_through(ino, args, written);
        }
        if is_direct && self.direct_writes.is_read(ino) {
            let range = args.offset..args.offset.saturating_add(size as u64);
            if let Some(waiting) = self.drop_pages(ino, range, InlineReply::new(&written)) {
                return Ok(waiting);
            }
        }
        reply.push(&written)?;
        Ok(Outcome::Done(()))
    }

    /// A worker has the kernel drop pages of `ino`, and replies to the write. `None`: the worker
    /// does not reply, so many writes wait already.
    fn drop_pages(&self, ino: u64, range: Range<u64>, reply: InlineReply) -> Option<Outcome<()>> {
        let notifier = Arc::clone(&self.notifier);
        let Some(waiting) = self.direct_writes.wait() else {
            let work = Box::new(move || {
                notifier.inval_inode(ino, Some(range));
                Ok(InlineReply::default())
            });
            let class = BlockingClass::Io;
            let offload = Offload::Blocks { class, work };
            self.workers.submit(offload, Box::new(|_| {}));
            return None;
        };
        Some(Outcome::offload(BlockingClass::Io, move || {
            notifier.inval_inode(ino, Some(range));
            drop(waiting);
            Ok(reply)
        }))
    }

    /// Where a write goes: `O_APPEND` may have changed since the open, and comes with each write.
    pub(super) fn place(&self, args: &WriteIn, offset: u64) -> WriteAt {
        match args.flags as i32 & libc::O_APPEND {
            0 => WriteAt::At(offset),
            _ if !self.settings.writeback => WriteAt::End,
            // The kernel knows the end of what it has not yet written back, and the volume what the
            // library has appended.
            _ => WriteAt::EndFrom(offset),
        }
    }

    /// A write is passed on through this handle, which a kernel that keeps times itself does not
    /// note.
    fn pass_on(&self, handle: u64, ino: u64) -> VfsResult<()> {
        if self.settings.writeback && !self.has_written(handle) {
            let mtime = || Ok::<_, VfsError>(self.vfs.getattr(&Caller::ROOT, ino)?.mtime);
            self.cached_mtimes.first_write(ino, mtime)?;
            self.handles.with(handle, Handle::set_written);
        }
        Ok(())
    }

    fn has_written(&self, handle: u64) -> bool {
        self.handles.with(handle, Handle::has_written) == Some(true)
    }

    pub(crate) fn flush(&self, args: &FlushIn) -> OpResult {
        if self.settings.no_flush {
            return Err(Errno(libc::ENOSYS).into());
        }
        if args.fh != 0 {
            self.blocks_are_asked_again(args.fh);
            let flush = |handle: &Handle<V::File>| {
                if handle.remove_lock_owner(args.lock_owner) {
                    let ino = handle.file.ino();
                    self.handles
                        .closing_locks()
                        .closes(ino, args.fh, Instant::now());
                }
                self.vfs.flush(&handle.file, args.lock_owner)
            };
            self.handles
                .with(args.fh, flush)
                .unwrap_or(Err(Errno::EBADF.into()))?;
        }
        Ok(Outcome::Done(()))
    }

    pub(crate) fn release(&self, args: &ReleaseIn) -> OpResult {
        let flock = args.release_flags & RELEASE_FLOCK_UNLOCK != 0;
        if let Some(ino) = self.moved_times(args.fh) {
            self.notifier.mark_stale(ino);
        }
        let ino = self.close(args.fh, flock.then_some(args.lock_owner));
        if let Some(ino) = ino {
            self.handles.closing_locks().ended(ino, args.fh);
        }
        if let Some(ino) = ino.filter(|&ino| self.notifier.is_stale(ino)) {
            self.prune_closed(ino);
        }
        Ok(Outcome::Done(()))
    }

    /// The inode of a handle whose writes were passed on, if the kernel, which keeps times itself
    /// and does not move them for such writes, believes an older one than the file has.
    fn moved_times(&self, handle: u64) -> Option<u64> {
        if !self.settings.writeback {
            return None;
        }
        let wrote = |handle: &Handle<V::File>| {
            let file = &handle.file;
            let passed_on = self.settings.direct_io || file.is_charged() || keeps_append(&**file);
            (passed_on && handle.has_written()).then(|| file.ino())
        };
        let ino = self.handles.with(handle, wrote).flatten()?;
        let attr = self.vfs.getattr(&Caller::ROOT, ino).ok()?;
        // What was written at once when it was made has the time that the kernel was told then.
        let since_told = match self.cached_mtimes.get(ino) {
            Some(told) => attr.mtime.nanos().abs_diff(told.nanos()),
            None => return None,
        };
        (attr.nlink > 0 && since_told > TICK_NS).then_some(ino)
    }

    pub(crate) fn fsync(&self, args: &FsyncIn) -> OpResult {
        if args.fh == 0 {
            // Opened by the kernel alone: more than is asked for.
            return self.syncfs();
        }
        let (file, data_only) = (self.file(args.fh)?, args.fsync_flags & FSYNC_FDATASYNC != 0);
        self.tell_blocks(file.ino());
        let synced = self.handles.with(args.fh, Handle::take_synced).flatten();
        if let Some(synced) = synced
            && (data_only || self.has_durable_attrs(&file, synced))
            && self.vfs.is_durable_but_for_attrs(&file)
        {
            return Ok(Outcome::Done(()));
        }
        let vfs = self.vfs.clone();
        if let Some(point) = vfs.begin_fsync(&file) {
            // The thread that makes it durable replies to all whom it served.
            return Ok(Outcome::later(move |finish| {
                let reply = move |synced: Result<(), Errno>| {
                    finish(synced.map(|()| InlineReply::default()))
                };
                vfs.when_durable(point, Box::new(reply));
            }));
        }
        self.sync(move || vfs.block_on(|vfs| vfs.fsync(&file, data_only)))
    }

    pub(crate) fn syncfs(&self) -> OpResult {
        let vfs = self.vfs.clone();
        self.sync(move || vfs.block_on(V::syncfs))
    }

    /// Done at once where nothing is ever waited for, by a worker otherwise.
    fn sync(&self, work: impl FnOnce() -> Result<(), Errno> + Send + 'static) -> OpResult {
        if self.vfs.sync_waits() {
            return Ok(Outcome::offload(BlockingClass::Io, move || {
                work().map(|()| InlineReply::default())
            }));
        }
        Ok(Outcome::Done(work()?))
    }

    /// Takes an open file into the table; what goes back to the kernel.
    pub(crate) fn opened(&self, caller: &Caller<'_>, file: Arc<V::File>) -> OpenOut {
        if self.settings.writeback && !self.vfs.appends_only(&file) {
            // The kernel finds the end of the file itself, and reads what it is about to write
            // parts of.
            let access = match file.flags() & libc::O_ACCMODE {
                libc::O_WRONLY => libc::O_RDWR,
                other => other,
            };
            file.set_flags(file.flags() & !(libc::O_APPEND | libc::O_ACCMODE) | access);
        }
        if writes_directly(file.flags()) {
            self.direct_writes.opened(file.ino());
        }
        // In this order: see `V::charges_first`.
        let fh = self.handles.insert(Arc::clone(&file));
        let (open_flags, backing_id) = match self.flow_begins(caller, &file) {
            Some(backing_id) => {
                // The kernel opens the file below with the flags of now, and would go on appending
                // when a program has taken `O_APPEND` away. So these reads and writes come here.
                let direct = match file.writable() && keeps_append(&*file) {
                    true => fopen::DIRECT_IO,
                    false => 0,
                };
                let flags = fopen::PASSTHROUGH | direct | self.flush_flag(&file);
                (flags, backing_id)
            }
            None => (self.file_open_flags(&file), 0),
        };
        if open_flags & fopen::DIRECT_IO != 0 {
            self.handles.with(fh, Handle::set_unfollowed);
        }
        OpenOut {
            fh,
            open_flags,
            backing_id,
        }
    }

    /// What the kernel may do with an open file. Its pages stay where whoever changes a file behind
    /// the kernel says so.
    fn file_open_flags(&self, file: &V::File) -> u32 {
        // Without mappings of direct files a limited one would lose more than it gains.
        let charged = self.settings.direct_mmap && self.vfs.charges_first(file);
        let direct = self.settings.direct_io || file.is_control() || file.hides_size() || charged;
        let direct = direct || self.settings.writeback && keeps_append(file);
        let cache = match direct {
            true => fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES,
            false if file.keeps_cache() => fopen::KEEP_CACHE,
            false => 0,
        };
        cache | self.flush_flag(file)
    }

    /// Whether closes of programs are requests.
    fn flush_flag(&self, file: &V::File) -> u32 {
        match self.settings.no_flush || !file.needs_flush() {
            true => fopen::NOFLUSH,
            false => 0,
        }
    }
}

/// With a writeback cache: whether the kernel passes each write to it on, because only its end may
/// be written to. Of other such files `O_APPEND` is the kernel's affair, and taken off.
fn keeps_append(file: &impl VfsFile) -> bool {
    file.flags() & libc::O_APPEND != 0
}
