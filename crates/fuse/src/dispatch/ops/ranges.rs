//! Ranges of files: finding data and holes, allocating, copying.

use crate::dispatch::kernel_cache::suid_killer::SuidKiller;
use crate::dispatch::{Context, Dispatcher, OpResult};
use crate::wait::enospc_retry::retry_enospc;
use crate::wait::outcome::{BlockingClass, InlineReply, Outcome, WaitFor};
use crate::wait::price::{COPY_MAX, SHORT, brings_blocks};
use crate::wait::service::Service;
use crate::wire::reply::Reply;
use crate::wire::{
    CopyFileRangeIn, CopyFileRangeOut, FallocateIn, InHeader, LseekIn, LseekOut, PAGE_SIZE,
    WriteOut,
};
use hearth::sched::Handle;
use hearth::{Caller, Errno, KernelCache, Origin, TenantId, VfsError, VfsFile, VfsResult};
use hearth_sync::primitive::Arc;

/// What gives back or moves more at once is done by a worker.
pub(super) const LARGE: u64 = 4 << 20;
/// Bytes of a chunk: less than the scheduler lets a tenant do before another has its turn.
const CHUNK: u64 = 256 << 10;
impl<V: KernelCache> Dispatcher<V> {
    pub(crate) fn lseek(
        &self,
        cx: &Context<'_>,
        args: &LseekIn,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        // The signed offset of lseek(2): a negative one is behind no end.
        let (offset, whence) = (args.offset as i64, args.whence as i32);
        if args.fh != 0 && !self.is_passed_through(cx.ino()) {
            // The kernel asks without having written back, so the volume may lack the end of the
            // file, and what was stored through a mapping on any volume. What is dirty comes first;
            // a worker waits for it, since it comes as requests, which a rate limit may delay.
            let (file, vfs, ino) = (self.file(args.fh)?, self.vfs.clone(), cx.ino());
            let notifier = Arc::clone(&self.notifier);
            return Ok(Outcome::offload(BlockingClass::Seek, move || {
                notifier.inval_inode(ino, Some(0..u64::MAX));
                let offset = vfs.block_on(|vfs| vfs.lseek(&file, offset, whence))?;
                Ok(InlineReply::new(&LseekOut { offset }))
            }));
        }
        let offset = self.on_file(
            args.fh,
            |file| self.vfs.lseek(file, offset, whence),
            // Opened by the kernel alone: it falls back to "all data" by itself.
            || Err(Errno(libc::ENOSYS).into()),
        )?;
        reply.push(&LseekOut { offset })?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn fallocate(&self, cx: &Context<'_>, args: &FallocateIn) -> OpResult {
        let allocation = Allocation {
            vfs: self.vfs.clone(),
            suid_killer: SuidKiller::of(self),
            // What only grows may be allocated for; other modes are refused where they are done.
            file: self.file_or_inode(cx, args.fh, cx.ino(), libc::O_RDWR | libc::O_APPEND)?,
            header: cx.header,
            args: *args,
            sched: self.volume.scheduler(),
            tenant: self.tenant(&cx.header),
        };
        let mode = args.mode as i32;
        if self.is_durable_at_once(&allocation.file) {
            let volume = self.volume.clone();
            return Ok(Outcome::offload(BlockingClass::Io, move || {
                let (vfs, file) = (&allocation.vfs, &allocation.file.file);
                retry_enospc(&volume, || vfs.block_on(|_| allocation.whole()))?;
                vfs.block_on(|vfs| vfs.fsync(file, false))?;
                Ok(InlineReply::default())
            }));
        }
        if self.vfs.may_block() {
            // This thread is one that others do not wait for.
            allocation.whole()?;
            return Ok(Outcome::Done(()));
        }
        if !self.vfs.allocates_in_parts(mode) {
            let bytes = self
                .vfs
                .getattr(&cx.caller(0), cx.ino())?
                .blocks
                .saturating_mul(512);
            // A hole takes away what there is in it; else what lies behind moves, or goes to the
            // home.
            let moved = match mode & libc::FALLOC_FL_PUNCH_HOLE {
                0 => args.length.max(bytes),
                _ => args.length.min(bytes),
            };
            if moved > LARGE {
                let volume = self.volume.clone();
                let work = move || {
                    retry_enospc(&volume, || allocation.vfs.block_on(|_| allocation.whole()))
                };
                return Ok(Outcome::offload(BlockingClass::Whole, move || {
                    work().map(|()| InlineReply::default())
                }));
            }
        } else if args.length > SHORT {
            return Ok(Outcome::chunks(allocation.into_chunks()));
        }
        allocation.whole()?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn copy_file_range(
        &self,
        cx: &Context<'_>,
        args: &CopyFileRangeIn,
        wide: bool,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        let (sched, may_block) = (self.volume.scheduler(), self.vfs.may_block());
        let from = self.file_or_inode(cx, args.fh_in, cx.ino(), libc::O_RDONLY)?;
        let to = self.file_or_inode(cx, args.fh_out, args.nodeid_out, libc::O_RDWR)?;
        let is_durable = self.is_durable_at_once(&to);
        let most = match wide {
            // Only that much was charged. A copy in chunks sees to it by itself.
            _ if (may_block || is_durable) && sched.has_limits() => COPY_MAX,
            true => u64::MAX,
            // The older request has 32 bits for the result.
            false => u64::from(u32::MAX) - PAGE_SIZE as u64,
        };
        let copy = Copy {
            vfs: self.vfs.clone(),
            suid_killer: SuidKiller::of(self),
            from,
            to,
            header: cx.header,
            args: CopyFileRangeIn {
                len: args.len.min(most),
                ..*args
            },
        };
        if is_durable {
            let volume = self.volume.clone();
            return Ok(Outcome::offload(BlockingClass::Io, move || {
                let (vfs, file) = (&copy.vfs, &copy.to.file);
                let all = || vfs.block_on(|_| copy.part(0, copy.args.len));
                let copied = retry_enospc(&volume, all)?;
                vfs.block_on(|vfs| vfs.fsync(file, false))?;
                Ok(copied_out(copied, wide))
            }));
        }
        if copy.args.len > SHORT && !may_block {
            return Ok(Outcome::chunks(copy.into_chunks(sched, wide)));
        }
        let copied = copy.part(0, copy.args.len)?;
        reply.bytes(copied_out(copied, wide).bytes())?;
        Ok(Outcome::Done(()))
    }

    /// Whether what changes the file returns when that is durable, and has to wait for it.
    fn is_durable_at_once(&self, opened: &Opened<V>) -> bool {
        self.vfs.sync_waits() && opened.file.is_synchronous()
    }

    /// The open file of a handle, or for a kernel that opens files alone one with `flags` that ends
    /// with the request.
    fn file_or_inode(
        &self,
        cx: &Context<'_>,
        handle: u64,
        ino: u64,
        flags: i32,
    ) -> VfsResult<Opened<V>> {
        if handle != 0 {
            return Ok(Opened {
                file: self.file(handle)?,
                until_drop: None,
            });
        }
        let file = self.vfs.open(&cx.caller(0), ino, flags)?;
        Ok(Opened {
            file,
            until_drop: Some(self.vfs.clone()),
        })
    }
}

/// An open file for the length of a request.
struct Opened<V: KernelCache> {
    file: Arc<V::File>,
    /// Present if it was opened for the request.
    until_drop: Option<V>,
}

impl<V: KernelCache> Drop for Opened<V> {
    fn drop(&mut self) {
        if let Some(vfs) = &self.until_drop {
            vfs.release(&self.file, None);
        }
    }
}

/// An allocation, or another change of a range that brings no bytes along.
struct Allocation<V: KernelCache> {
    vfs: V,
    suid_killer: SuidKiller<V>,
    file: Opened<V>,
    header: InHeader,
    args: FallocateIn,
    sched: Handle,
    /// Pays for what is not done in chunks.
    tenant: TenantId,
}

impl<V: KernelCache> Allocation<V> {
    /// All of it at once. A long one is charged when it is done: it may be attempted several times,
    /// and what is refused costs nothing, however long it would have been.
    fn whole(&self) -> VfsResult<()> {
        let args = &self.args;
        self.part(args.mode as i32, args.offset, args.length)?;
        if brings_blocks(args.mode) && args.length > SHORT && self.sched.has_limits() {
            let tenant = self.sched.tenant(self.tenant.number());
            // The next request waits for it.
            let _ = self.sched.charge(tenant, 0, args.length);
        }
        Ok(())
    }

    fn part(&self, mode: i32, offset: u64, length: u64) -> VfsResult<()> {
        let caller = caller(&self.header);
        self.suid_killer.strip_untold(&caller, self.header.nodeid)?;
        let file = &self.file.file;
        self.vfs.fallocate(&caller, file, mode, offset, length)
    }

    /// First all of the range is looked at, so that what cannot fit is refused before it is tried:
    /// there are not more chunks than there is space for. The last one moves the end of the file.
    fn into_chunks(
        self,
    ) -> impl FnMut(Option<Errno>) -> VfsResult<Outcome<InlineReply>> + Send + 'static {
        let (mode, mut at) = (self.args.mode as i32, self.args.offset);
        let end = at.saturating_add(self.args.length);
        let mut is_checked = false;
        move |lacks| {
            if let Some(errno) = lacks {
                return Err(errno.into());
            }
            if !is_checked {
                let file = &self.file.file;
                self.vfs.check_allocate(file, mode, at, end - at)?;
                is_checked = true;
                return Ok(Outcome::Wait(WaitFor::NextChunk(0)));
            }
            if at == end {
                return Ok(Outcome::Done(InlineReply::default()));
            }
            let next = next_edge(at, CHUNK).min(end);
            let mode = match next < end {
                true => mode | libc::FALLOC_FL_KEEP_SIZE,
                false => mode,
            };
            self.part(mode, at, next - at)?;
            let done = next - at;
            at = next;
            Ok(Outcome::Wait(WaitFor::NextChunk(done)))
        }
    }
}

/// The first multiple of `size` behind `at`.
fn next_edge(at: u64, size: u64) -> u64 {
    (at / size + 1) * size
}

struct Copy<V: KernelCache> {
    vfs: V,
    suid_killer: SuidKiller<V>,
    from: Opened<V>,
    to: Opened<V>,
    header: InHeader,
    args: CopyFileRangeIn,
}

impl<V: KernelCache> Copy<V> {
    /// Copies `len` bytes from `done` on.
    fn part(&self, done: u64, len: u64) -> VfsResult<u64> {
        let (caller, args) = (caller(&self.header), &self.args);
        self.suid_killer.strip_untold(&caller, args.nodeid_out)?;
        self.vfs.copy_file_range(
            &caller,
            (&self.from.file, args.off_in.saturating_add(done)),
            (&self.to.file, args.off_out.saturating_add(done)),
            len,
            args.flags,
        )
    }

    /// How much there is to copy.
    fn len(&self) -> VfsResult<u64> {
        let args = &self.args;
        let from = (&*self.from.file, args.off_in);
        let to = (&*self.to.file, args.off_out);
        self.vfs.check_copy(from, to, args.len)
    }

    /// An error after the first chunk ends the copy where it is.
    fn into_chunks(
        self,
        sched: Handle,
        wide: bool,
    ) -> impl FnMut(Option<Errno>) -> VfsResult<Outcome<InlineReply>> + Send + 'static {
        let (mut len, mut done) = (None, 0);
        move |lacks| {
            if let Some(errno) = lacks {
                return match done {
                    0 => Err(errno.into()),
                    done => Ok(Outcome::Done(copied_out(done, wide))),
                };
            }
            let len = match len {
                Some(len) => len,
                None => *len.insert(self.len()?),
            };
            let want = CHUNK.min(len - done);
            let copied = match self.part(done, want) {
                Err(error) if done == 0 || matches!(error, VfsError::Miss(_)) => return Err(error),
                copied => copied.unwrap_or(0),
            };
            done += copied;
            let paid = done >= COPY_MAX && sched.has_limits();
            match copied < want || done >= len || paid {
                true => Ok(Outcome::Done(copied_out(done, wide))),
                false => Ok(Outcome::Wait(WaitFor::NextChunk(0))),
            }
        }
    }
}

fn copied_out(copied: u64, wide: bool) -> InlineReply {
    match wide {
        true => InlineReply::new(&CopyFileRangeOut {
            bytes_copied: copied,
        }),
        false => InlineReply::new(&WriteOut {
            size: copied as u32,
            padding: 0,
        }),
    }
}

/// The caller of a request that is worked on after its bytes are gone; groups come with creations
/// only.
pub(super) fn caller(header: &InHeader) -> Caller<'static> {
    Caller {
        uid: header.uid,
        gid: header.gid,
        groups: &[],
        pid: header.pid,
        umask: 0,
        origin: Origin::Kernel,
    }
}
