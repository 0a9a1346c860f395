//! One synchronous dispatcher for both transports: decodes a request, calls the filesystem once,
//! and encodes the reply. It decides nothing.

pub(crate) mod closing_locks;
pub(crate) mod flows;
pub(crate) mod handles;
pub(crate) mod kernel_cache;
pub(crate) mod ops;
mod panics;
mod passthrough;
pub(crate) mod settings;
mod statistics;
mod unnamed;

use crate::dispatch::handles::Handles;
use crate::dispatch::kernel_cache::cached_mtime::CachedMtimes;
use crate::dispatch::kernel_cache::closed_files::ClosedFiles;
use crate::dispatch::kernel_cache::direct_writes::{DirectWrites, writes_directly};
use crate::dispatch::kernel_cache::notifier::Notifier;
use crate::dispatch::kernel_cache::told_blocks::ToldBlocks;
use crate::log::say;
use crate::wait::enospc_retry::is_enospc;
use crate::wait::outcome::{Attempt, Chunked, Missing, Offload, Outcome, Span, WaitFor};
use crate::wait::service::{Handled, Service};
use crate::wait::waiting::Waiting;
use crate::wait::workers::Workers;
use crate::wire::operation::Operation;
use crate::wire::reply::Reply;
use crate::wire::request::RawRequest;
use crate::wire::{InHeader, Opcode};
use hearth::{
    Caller, Errno, KernelCache, Op, Origin, TenantId, VfsError, VfsFile, VfsResult, Volume,
};
use hearth_sync::primitive::Arc;
use settings::Settings;
use std::time::Instant;

/// Translates requests into calls of a [`hearth::Vfs`]. Shared by all queue threads of a session.
pub(crate) struct Dispatcher<V: KernelCache> {
    pub(crate) vfs: V,
    pub(crate) handles: Arc<Handles<V::File>>,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) settings: Settings,
    pub(crate) notifier: Arc<Notifier<V>>,
    pub(crate) cached_mtimes: Arc<CachedMtimes>,
    pub(crate) closed_files: Arc<ClosedFiles>,
    pub(crate) told_blocks: Arc<ToldBlocks>,
    pub(crate) direct_writes: Arc<DirectWrites>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) volume: Volume,
}

/// What the method of an operation returns: how the attempt ended, unless by an error.
pub(crate) type OpResult = VfsResult<Outcome<()>>;

/// A request while it is worked on.
pub(crate) struct Context<'r> {
    pub header: InHeader,
    pub groups: &'r [u32],
    pub attempt: Attempt,
}

impl Context<'_> {
    /// A request that cannot wait, for work of another thread.
    pub fn alone(header: InHeader) -> Context<'static> {
        Context {
            header,
            groups: &[],
            attempt: Attempt::ONLY,
        }
    }

    /// The caller, as the core knows it.
    pub fn caller(&self, umask: u32) -> Caller<'_> {
        Caller {
            uid: self.header.uid,
            gid: self.header.gid,
            groups: self.groups,
            pid: self.header.pid,
            umask: (umask & 0o777) as u16,
            origin: Origin::Kernel,
        }
    }

    /// The inode that the request is about.
    pub fn ino(&self) -> u64 {
        self.header.nodeid
    }
}

impl<V: KernelCache> Service for Dispatcher<V> {
    fn handle(&self, request: &RawRequest<'_>, out: &mut [u8], attempt: Attempt) -> Handled {
        let started = Instant::now();
        let operation = match request.operation() {
            Ok(operation) => operation,
            Err(errno) => {
                let (outcome, span) = (Outcome::Done(Err(errno)), Span::since(started));
                return Handled { outcome, span };
            }
        };
        let (groups, mut header) = (request.groups(), request.header);
        let more = unnamed::identify(&mut header);
        let context = Context {
            header,
            groups: more.as_deref().unwrap_or(groups.ids()),
            attempt,
        };
        let mut reply = Reply::new(out);
        let perform = || self.guarded(|| self.perform(&context, operation, &mut reply));
        let done = hearth::provisional::attempt(attempt.again, perform);
        let span = Span::since(started);
        let op = statistics::op(&operation);
        let outcome = match done {
            Err(VfsError::Miss(miss)) => {
                Outcome::Wait(WaitFor::Fetch(Missing { miss, op: Some(op) }))
            }
            Err(VfsError::Errno(errno)) if attempt.again && is_enospc(errno) => {
                Outcome::Wait(WaitFor::Space(0))
            }
            Ok(Outcome::Wait(wait)) => Outcome::Wait(match wait {
                WaitFor::Worker(offload) => WaitFor::Worker(self.counted(op, offload)),
                WaitFor::Chunks(chunks) => WaitFor::Chunks(self.counted_chunks(op, chunks)),
                wait => wait,
            }),
            done => {
                let elapsed = attempt
                    .since
                    .map_or(span.ns(), |since| since.elapsed().as_nanos() as u64);
                self.volume.stats().count(op, elapsed, done.is_ok());
                match done {
                    Ok(Outcome::NoReply) => Outcome::NoReply,
                    Ok(_) => Outcome::Done(Ok(reply.len())),
                    Err(VfsError::Errno(errno)) => Outcome::Done(Err(errno)),
                    Err(VfsError::Miss(_)) => Outcome::Done(Err(Errno::EIO)),
                }
            }
        };
        Handled { outcome, span }
    }

    fn may_block(&self, header: &InHeader) -> bool {
        self.vfs.may_block() && !hearth::is_control(header.nodeid) && may_wait(header)
    }

    fn tenant(&self, header: &InHeader) -> TenantId {
        // Pages that the kernel writes back come from no process; a kernel that maps ids does not
        // say from whom.
        let is_written_back = header.pid == 0 && header.opcode == Opcode::Write as u32;
        if !is_written_back && header.uid != unnamed::NOBODY {
            let uid = self.vfs.counts_as(header.uid);
            return self.volume.tenant_of(header.nodeid, uid);
        }
        match self.vfs.owner_behind(header.nodeid) {
            Some(uid) => self.volume.tenant_of(header.nodeid, uid),
            None => self.volume.tenant_behind(header.nodeid),
        }
    }

    fn awaits_returns(&self) -> bool {
        self.volume.awaits_returns()
    }

    fn fetch(&self, missing: &Missing) -> Result<(), Errno> {
        let started = Instant::now();
        let fetched = self.guarded(|| self.vfs.fetch(&missing.miss));
        if let (Err(_), Some(op)) = (fetched, missing.op) {
            let elapsed = started.elapsed().as_nanos() as u64;
            self.volume.stats().count(op, elapsed, false);
        }
        fetched
    }
}

impl<V: KernelCache> Dispatcher<V> {
    pub fn new(
        volume: Volume,
        vfs: V,
        handles: Arc<Handles<V::File>>,
        settings: Settings,
        waiting: Arc<Waiting>,
        notifier: Arc<Notifier<V>>,
        workers: Arc<Workers>,
    ) -> Dispatcher<V> {
        Dispatcher {
            vfs,
            handles,
            waiting,
            settings,
            notifier,
            cached_mtimes: Arc::default(),
            closed_files: Arc::default(),
            told_blocks: Arc::default(),
            direct_writes: Arc::default(),
            workers,
            volume,
        }
    }

    /// Calls `with` with the open file behind a handle, `without` if the kernel opened the file by
    /// itself.
    pub(crate) fn on_file<R>(
        &self,
        handle: u64,
        with: impl FnOnce(&V::File) -> VfsResult<R>,
        without: impl FnOnce() -> VfsResult<R>,
    ) -> VfsResult<R> {
        if handle == 0 {
            return without();
        }
        self.handles
            .with(handle, |handle| with(&handle.file))
            .unwrap_or(Err(Errno::EBADF.into()))
    }

    /// The open file behind a handle.
    pub(crate) fn file(&self, handle: u64) -> Result<Arc<V::File>, Errno> {
        self.handles
            .with(handle, |handle| Arc::clone(&handle.file))
            .ok_or(Errno::EBADF)
    }

    /// Closes a handle and releases the locks that end with it. Returns the inode.
    pub(crate) fn close(&self, handle: u64, flock_owner: Option<u64>) -> Option<u64> {
        let (file, lock_owners) = self.handles.remove(handle)?;
        for owner in lock_owners {
            // Only a file that was released already has no locks to give up.
            let _ = self.vfs.flush(&file, owner);
        }
        if writes_directly(file.flags()) {
            self.direct_writes.closed(file.ino());
        }
        self.vfs.release(&file, flock_owner);
        self.flow_ended(&*file);
        Some(file.ino())
    }

    fn perform(
        &self,
        cx: &Context<'_>,
        operation: Operation<'_>,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        use Operation as O;
        match operation {
            O::Lookup { name } => self.lookup(cx, name, reply),
            O::Forget { count } => self.forget(cx.ino(), count),
            O::BatchForget { items } => self.batch_forget(items),
            O::Getattr => self.getattr(cx, reply),
            O::Statx => self.statx(cx, reply),
            O::Setattr(args) => self.setattr(cx, &args, reply),
            O::Readlink => self.readlink(cx, reply),
            O::Symlink { name, target } => self.symlink(cx, name, target, reply),
            O::Mknod { args, name } => self.mknod(cx, &args, name, reply),
            O::Mkdir { args, name } => self.mkdir(cx, &args, name, reply),
            O::Unlink { name } => self.unlink(cx, name),
            O::Rmdir { name } => self.rmdir(cx, name),
            O::Rename {
                args,
                name,
                new_name,
            } => self.rename(cx, &args, name, new_name),
            O::Link { ino, name } => self.link(cx, ino, name, reply),
            O::Open(args) => self.open(cx, &args, reply),
            O::Opendir(args) => self.opendir(cx, &args, reply),
            O::Create { args, name } => self.create(cx, &args, name, reply),
            O::Tmpfile(args) => self.tmpfile(cx, &args, reply),
            O::Read(args) => self.read(cx, &args, reply),
            O::Readdir(args) => self.readdir(cx, &args, reply),
            O::Readdirplus(args) => self.readdirplus(cx, &args, reply),
            O::Write { args, data } => self.write(cx, &args, data, reply),
            O::Flush(args) => self.flush(&args),
            O::Release(args) | O::Releasedir(args) => self.release(&args),
            O::Fsync(args) | O::Fsyncdir(args) => self.fsync(&args),
            O::Syncfs => self.syncfs(),
            other => self.perform_rest(cx, other, reply),
        }
    }

    fn perform_rest(
        &self,
        cx: &Context<'_>,
        operation: Operation<'_>,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        use Operation as O;
        match operation {
            O::Statfs => self.statfs(cx, reply),
            O::Access { mask } => self.access(cx, mask),
            O::Setxattr { args, name, value } => self.setxattr(cx, &args, name, value),
            O::Getxattr { size, name } => self.getxattr(cx, name, size, reply),
            O::Listxattr { size } => self.listxattr(cx, size, reply),
            O::Removexattr { name } => self.removexattr(cx, name),
            O::Getlk(args) => self.getlk(cx, &args, reply),
            O::Setlk { args, wait } => self.setlk(cx, &args, wait),
            O::Ioctl { args, data } => self.ioctl(cx, &args, data, reply),
            O::Fallocate(args) => self.fallocate(cx, &args),
            O::Lseek(args) => self.lseek(cx, &args, reply),
            O::CopyFileRange { args, wide } => self.copy_file_range(cx, &args, wide, reply),
            O::Interrupt { unique } => {
                self.waiting.interrupt(unique);
                Ok(Outcome::NoReply)
            }
            O::Destroy => Ok(Outcome::Done(())),
            // INIT comes once, before there is a dispatcher.
            O::Init => Err(Errno::EIO.into()),
            _ => Err(Errno(libc::ENOSYS).into()),
        }
    }

    /// A panic costs one request, not the mount.
    fn guarded<T, E: From<Errno>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        guarded(&self.volume, work)
    }

    /// `offload` with what [`Service::handle`] does around an operation: panics are caught, and the
    /// operation is counted.
    fn counted(&self, op: Op, offload: Offload) -> Offload {
        let volume = self.volume.clone();
        match offload {
            Offload::Blocks { class, work } => {
                let work = move || {
                    let started = Instant::now();
                    let result = guarded(&volume, work);
                    count(&volume, op, started, result.is_ok());
                    result
                };
                Offload::Blocks {
                    class,
                    work: Box::new(work),
                }
            }
            Offload::Later(begin) => {
                let started = Instant::now();
                Offload::Later(Box::new(move |finish| {
                    begin(Box::new(move |result| {
                        count(&volume, op, started, result.is_ok());
                        finish(result);
                    }));
                }))
            }
        }
    }

    /// `chunks` with what [`Service::handle`] does around an operation. The operation is counted
    /// when its last chunk ends.
    fn counted_chunks(&self, op: Op, chunks: Chunked) -> Chunked {
        let (volume, started, mut next) = (self.volume.clone(), Instant::now(), chunks.next);
        let next = move |attempt: Attempt| {
            let result = match guarded(&volume, || Ok(next(attempt))) {
                Ok(Outcome::Done(Err(errno))) if attempt.again && is_enospc(errno) => {
                    return Outcome::Wait(WaitFor::Space(0));
                }
                Ok(Outcome::Done(result)) => result,
                Ok(wait) => return wait,
                Err(errno) => Err(errno),
            };
            count(&volume, op, started, result.is_ok());
            Outcome::Done(result)
        };
        let next = Box::new(next);
        Chunked { next }
    }
}

impl<V: KernelCache> Drop for Dispatcher<V> {
    fn drop(&mut self) {
        for number in self.handles.numbers() {
            self.close(number, None);
        }
    }
}

fn count(volume: &Volume, op: Op, started: Instant, is_ok: bool) {
    let elapsed = started.elapsed().as_nanos() as u64;
    volume.stats().count(op, elapsed, is_ok);
}

/// Whether an operation of this kind may wait, where operations may.
fn may_wait(header: &InHeader) -> bool {
    !matches!(
        Opcode::from_number(header.opcode),
        Some(Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt | Opcode::Destroy)
    )
}

fn guarded<T, E: From<Errno>>(
    volume: &Volume,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    panics::catch(work).unwrap_or_else(|report| {
        report_panic(volume, &report);
        Err(Errno::EIO.into())
    })
}

fn report_panic(volume: &Volume, report: &str) {
    say(format_args!(
        "panic in an operation, answered EIO: {report}"
    ));
    volume.record_panic(report);
}
