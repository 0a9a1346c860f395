//! One synchronous dispatcher for both transports: decode, one call into the filesystem, encode. It
//! decides nothing.

pub(crate) mod handles;
pub(crate) mod kernel_cache;
pub(crate) mod ops;
mod panics;

use crate::dispatch::handles::Handles;
use crate::dispatch::kernel_cache::cached_mtime::CachedMtimes;
use crate::dispatch::kernel_cache::notifier::Notifier;
use crate::log::say;
use crate::mount::init::Agreed;
use crate::mount::options::MountOptions;
use crate::wait::enospc_retry::is_refusal;
use crate::wait::service::{
    Absent, Answer, Attempt, BlockingClass, Handled, InlineReply, Offload, Piece, Pieces, Service,
    Span, Try,
};
use crate::wait::waiting::Waiting;
use crate::wait::workers::Workers;
use crate::wire::reply::{Reply, Timeouts};
use crate::wire::request::{Operation, RawRequest};
use crate::wire::{InHeader, Opcode, init};
use hearth::{Caller, Door, Errno, Op, OpenFile, Origin, TenantId, Volume};
use hearth_sync::primitive::Arc;
use std::time::Instant;

/// Translates requests into calls of [`Door`]. Shared by all queue threads of a session.
pub(crate) struct Dispatcher {
    pub(crate) door: Door,
    pub(crate) handles: Arc<Handles>,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) settings: Settings,
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) believed: Arc<CachedMtimes>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) volume: Volume,
}

/// What the options and INIT mean for single requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub timeouts: Timeouts,
    pub direct_io: bool,
    /// Direct files may be mapped.
    pub direct_mmap: bool,
    pub no_open: bool,
    pub no_opendir: bool,
    pub no_flush: bool,
    pub writeback: bool,
}

impl Settings {
    pub fn new(options: &MountOptions, agreed: &Agreed) -> Settings {
        Settings {
            timeouts: Timeouts {
                entry: options.entry_timeout,
                attr: options.attr_timeout,
                negative: options.negative_timeout,
            },
            direct_io: options.direct_io,
            direct_mmap: agreed.has(init::DIRECT_IO_ALLOW_MMAP),
            no_open: agreed.has(init::NO_OPEN_SUPPORT),
            no_opendir: agreed.has(init::NO_OPENDIR_SUPPORT),
            no_flush: options.no_flush,
            writeback: agreed.has(init::WRITEBACK_CACHE),
        }
    }

    /// Whether the kernel acknowledges writes by itself, if only stores through mappings, but for
    /// files that are charged first.
    pub fn collects(&self) -> bool {
        self.direct_mmap && !self.no_open
    }

    /// Whether it does so for files that are charged first too.
    pub fn collects_anyway(&self) -> bool {
        self.writeback && (self.no_open || !self.direct_mmap)
    }
}

/// How an operation ended without an error.
pub(crate) enum Done {
    /// The reply holds the body, perhaps none.
    Reply,
    /// The kernel expects no answer.
    Silent,
    /// So many bytes were written, and for the next there was no room. To be attempted again.
    Part(usize),
    /// A worker goes on.
    Offload(Offload),
    /// Each call does a piece, without waiting.
    Pieces(Box<NextPart>),
}

/// Does the next piece, or ends the request: what the piece lacked cannot be brought.
pub(crate) type NextPart = dyn FnMut(Option<Errno>) -> Result<Part, Errno> + Send;

/// What a call for a piece has done.
pub(crate) enum Part {
    /// There is another one. So many bytes of this one are still to be charged.
    More(u64),
    /// It was the last: the request's answer.
    Last(InlineReply),
}

/// A request while it is worked on.
pub(crate) struct Context<'r> {
    pub header: InHeader,
    pub groups: &'r [u32],
    pub attempt: Attempt,
}

impl Context<'_> {
    /// Who asks.
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

impl Service for Dispatcher {
    fn handle(&self, request: &RawRequest<'_>, out: &mut [u8], attempt: Attempt) -> Handled {
        let started = Instant::now();
        let operation = match request.operation() {
            Ok(operation) => operation,
            Err(errno) => {
                let (answer, span) = (Answer::Error(errno), Span::since(started));
                return Handled { answer, span };
            }
        };
        let groups = request.groups();
        let context = Context {
            header: request.header,
            groups: groups.ids(),
            attempt,
        };
        let mut reply = Reply::new(out);
        let (done, absent) = hearth::without_waiting(|| {
            self.guarded(|| self.perform(&context, operation, &mut reply))
        });
        let span = Span::since(started);
        let op = statistic(&operation);
        let answer = match (done, absent) {
            (_, Some(what)) => Answer::Absent(Absent { what, op: Some(op) }),
            (Ok(Done::Part(done)), _) => Answer::Refused(done),
            (done, _) if attempt.again && is_refusal(&done) => Answer::Refused(0),
            (Ok(Done::Offload(later)), _) => Answer::Offload(self.counted(op, later)),
            (Ok(Done::Pieces(next)), _) => Answer::Pieces(self.counted_pieces(op, next)),
            (done, _) => {
                let elapsed = attempt
                    .since
                    .map_or(span.ns(), |since| since.elapsed().as_nanos() as u64);
                self.volume.stats().count(op, elapsed, done.is_ok());
                match done {
                    Ok(Done::Silent) => Answer::Silent,
                    Ok(_) => Answer::Reply(reply.len()),
                    Err(errno) => Answer::Error(errno),
                }
            }
        };
        Handled { answer, span }
    }

    fn tenant(&self, header: &InHeader) -> TenantId {
        // Pages that the kernel writes back come from no process.
        match header.pid == 0 && header.opcode == Opcode::Write as u32 {
            true => self.volume.tenant_behind(header.nodeid),
            false => self.volume.tenant_of(header.nodeid, header.uid),
        }
    }

    fn awaits_returns(&self) -> bool {
        self.volume.awaits_returns()
    }

    fn bring(&self, absent: &Absent) -> Result<(), Errno> {
        let started = Instant::now();
        let brought = self.guarded(|| self.volume.bring(&absent.what));
        if let (Err(_), Some(op)) = (brought, absent.op) {
            let elapsed = started.elapsed().as_nanos() as u64;
            self.volume.stats().count(op, elapsed, false);
        }
        brought
    }
}

impl Dispatcher {
    pub fn new(
        volume: Volume,
        handles: Arc<Handles>,
        settings: Settings,
        waiting: Arc<Waiting>,
        notifier: Arc<Notifier>,
        workers: Arc<Workers>,
    ) -> Dispatcher {
        Dispatcher {
            door: volume.door(),
            handles,
            waiting,
            settings,
            notifier,
            believed: Arc::default(),
            workers,
            volume,
        }
    }

    /// Calls `with` with the open file behind a handle, `without` if the kernel opened the file by
    /// itself.
    pub(crate) fn on_file<R>(
        &self,
        handle: u64,
        with: impl FnOnce(&OpenFile) -> Result<R, Errno>,
        without: impl FnOnce() -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        if handle == 0 {
            return without();
        }
        self.handles
            .with(handle, |handle| with(&handle.file))
            .unwrap_or(Err(Errno::EBADF))
    }

    /// The open file behind a handle.
    pub(crate) fn file(&self, handle: u64) -> Result<Arc<OpenFile>, Errno> {
        self.handles
            .with(handle, |handle| Arc::clone(&handle.file))
            .ok_or(Errno::EBADF)
    }

    /// Closes a handle and gives up the locks that end with it. Answers the inode.
    pub(crate) fn close(&self, handle: u64, flock_owner: Option<u64>) -> Option<u64> {
        let (file, lock_owners) = self.handles.remove(handle)?;
        for owner in lock_owners {
            // Only a file that was released already has no locks to give up.
            let _ = self.door.flush(&file, owner);
        }
        self.door.release(&file, flock_owner);
        Some(file.ino())
    }

    fn perform(
        &self,
        cx: &Context<'_>,
        operation: Operation<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<Done, Errno> {
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
    ) -> Result<Done, Errno> {
        use Operation as O;
        match operation {
            O::Statfs => self.statfs(cx, reply),
            O::Access { mask } => self.access(cx, mask),
            O::Setxattr { args, name, value } => self.setxattr(cx, &args, name, value),
            O::Getxattr { size, name } => self.getxattr(cx, name, size, reply),
            O::Listxattr { size } => self.listxattr(cx, size, reply),
            O::Removexattr { name } => self.removexattr(cx, name),
            O::Getlk(args) => self.getlk(&args, reply),
            O::Setlk { args, wait } => self.setlk(cx, &args, wait),
            O::Ioctl { args, data } => self.ioctl(cx, &args, data, reply),
            O::Fallocate(args) => self.fallocate(cx, &args),
            O::Lseek(args) => self.lseek(cx, &args, reply),
            O::CopyFileRange { args, wide } => self.copy_file_range(cx, &args, wide, reply),
            O::Interrupt { unique } => {
                self.waiting.interrupt(unique);
                Ok(Done::Silent)
            }
            O::Destroy => Ok(Done::Reply),
            // INIT comes once, before there is a dispatcher.
            O::Init => Err(Errno::EIO),
            _ => Err(Errno(libc::ENOSYS)),
        }
    }

    /// A panic costs one request, not the mount.
    fn guarded<T>(&self, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        guarded(&self.volume, work)
    }

    /// Adds to late work what the queue thread does around early work: a guard and statistics.
    fn counted(&self, op: Op, later: Offload) -> Offload {
        let (volume, work) = (self.volume.clone(), later.work);
        let work = move || -> Result<InlineReply, Errno> {
            let started = Instant::now();
            let result = guarded(&volume, work);
            let elapsed = started.elapsed().as_nanos() as u64;
            volume.stats().count(op, elapsed, result.is_ok());
            result
        };
        Offload {
            lane: later.lane,
            work: Box::new(work),
        }
    }

    /// The same for each piece of work, which is counted at its end.
    fn counted_pieces(
        &self,
        op: Op,
        mut next: impl FnMut(Option<Errno>) -> Result<Part, Errno> + Send + 'static,
    ) -> Pieces {
        let (volume, started) = (self.volume.clone(), Instant::now());
        let next = move |how: Try| {
            let lacks = match how {
                Try::Without(errno) => Some(errno),
                Try::Again | Try::Last => None,
            };
            let (part, absent) = hearth::without_waiting(|| guarded(&volume, || next(lacks)));
            let result = match (part, absent) {
                (_, Some(what)) if lacks.is_none() => {
                    return Piece::Absent(Absent { what, op: None });
                }
                (Ok(Part::More(bytes)), _) => return Piece::More(bytes),
                (part, _) if how == Try::Again && is_refusal(&part) => return Piece::Refused,
                (Ok(Part::Last(small)), _) => Ok(small),
                (Err(errno), _) => Err(errno),
            };
            let elapsed = started.elapsed().as_nanos() as u64;
            volume.stats().count(op, elapsed, result.is_ok());
            Piece::Last(result)
        };
        Pieces {
            next: Box::new(next),
        }
    }
}

impl Done {
    /// Work that waits for a device.
    pub fn io(work: impl FnOnce() -> Result<InlineReply, Errno> + Send + 'static) -> Done {
        Done::Offload(Offload {
            lane: BlockingClass::Io,
            work: Box::new(work),
        })
    }

    /// Work that takes long and cannot be parted.
    pub fn whole(work: impl FnOnce() -> Result<InlineReply, Errno> + Send + 'static) -> Done {
        Done::Offload(Offload {
            lane: BlockingClass::Whole,
            work: Box::new(work),
        })
    }

    /// Work that is done in pieces, a call each.
    pub fn pieces(next: impl FnMut(Option<Errno>) -> Result<Part, Errno> + Send + 'static) -> Done {
        Done::Pieces(Box::new(next))
    }

    /// Work that waits for other requests: for a lock, or for what is written back.
    pub fn waiting(work: impl FnOnce() -> Result<InlineReply, Errno> + Send + 'static) -> Done {
        Done::Offload(Offload {
            lane: BlockingClass::Wait,
            work: Box::new(work),
        })
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        for number in self.handles.numbers() {
            self.close(number, None);
        }
    }
}

fn guarded<T>(volume: &Volume, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    panics::catch(work).unwrap_or_else(|report| {
        report_panic(volume, &report);
        Err(Errno::EIO)
    })
}

fn report_panic(volume: &Volume, report: &str) {
    say(format_args!(
        "panic in an operation, answered EIO: {report}"
    ));
    volume.record_panic(report);
}

fn statistic(operation: &Operation<'_>) -> Op {
    use Operation as O;
    match operation {
        O::Lookup { .. } => Op::Lookup,
        O::Forget { .. } | O::BatchForget { .. } => Op::Forget,
        O::Getattr | O::Statx => Op::GetAttr,
        O::Setattr(_) => Op::SetAttr,
        O::Readlink => Op::ReadLink,
        O::Symlink { .. } => Op::Symlink,
        O::Mknod { .. } => Op::Mknod,
        O::Mkdir { .. } => Op::Mkdir,
        O::Unlink { .. } => Op::Unlink,
        O::Rmdir { .. } => Op::Rmdir,
        O::Rename { .. } => Op::Rename,
        O::Link { .. } => Op::Link,
        O::Open(_) => Op::Open,
        O::Opendir(_) => Op::OpenDir,
        O::Create { .. } => Op::Create,
        O::Tmpfile(_) => Op::Tmpfile,
        O::Read(_) => Op::Read,
        O::Readdir(_) | O::Readdirplus(_) => Op::ReadDir,
        O::Write { .. } => Op::Write,
        O::Flush(_) => Op::Flush,
        O::Release(_) | O::Releasedir(_) => Op::Release,
        O::Fsync(_) | O::Fsyncdir(_) => Op::Fsync,
        O::Syncfs => Op::SyncFs,
        O::Statfs => Op::StatFs,
        O::Access { .. } => Op::Access,
        O::Setxattr { .. } => Op::SetXattr,
        O::Getxattr { .. } => Op::GetXattr,
        O::Listxattr { .. } => Op::ListXattr,
        O::Removexattr { .. } => Op::RemoveXattr,
        O::Getlk(_) => Op::GetLk,
        O::Setlk { .. } => Op::SetLk,
        O::Ioctl { .. } => Op::Ioctl,
        O::Fallocate(_) => Op::Fallocate,
        O::Lseek(_) => Op::Lseek,
        O::CopyFileRange { .. } => Op::CopyFileRange,
        O::Interrupt { .. } => Op::Interrupt,
        O::Init | O::Destroy | O::Unsupported => Op::Other,
    }
}
