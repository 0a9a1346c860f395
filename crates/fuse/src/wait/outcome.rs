//! The outcome of an attempt at a request: it is finished, or it waits for something.

use hearth::sched::Permit;
use hearth::{Errno, Miss, Op, VfsError, VfsResult};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use zerocopy::{Immutable, IntoBytes};

/// How an attempt at a request, or at one chunk of it, ended.
pub(crate) enum Outcome<T> {
    /// Finished with this result.
    Done(T),
    /// Finished; the kernel expects no reply.
    NoReply,
    /// Not finished. It waits, and is then attempted again.
    Wait(WaitFor),
}

/// Data that a delayed request holds.
pub(crate) struct Held {
    /// What all of them hold, in bytes. Relaxed: a sum that orders nothing.
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Held {
    /// Adds these bytes to `all`, and says how many there are then.
    pub fn of(all: &Arc<AtomicUsize>, bytes: usize) -> (Held, usize) {
        let sum = all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let all = Arc::clone(all);
        (Held { all, bytes }, sum)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Called with the result of a request and the function that sends it; calls that when the rate
/// limits allow.
pub(crate) type LateReply = Box<dyn FnOnce(Result<InlineReply, Errno>, Finish) + Send>;

/// What a request waits for. [`super::request_task`] waits for each of these.
pub(crate) enum WaitFor {
    /// Its turn: requests of other tenants may go first.
    Turn,
    /// The rate limits of the tenants that it is charged to. Its data is held meanwhile.
    RateLimit(Permits, Held),
    /// Nothing, because too much data is held: its reply waits for the rate limits.
    /// With the bytes of its data.
    LateReply(Permits, usize),
    /// A thread that may block, which attempts it.
    Thread,
    /// One suspension of each kind, for `park=every`.
    Test,
    /// Something that is not in memory.
    Fetch(Missing),
    /// Free space. None was left, but some may be on its way back. A write has stored this many
    /// bytes so far.
    Space(usize),
    /// Another thread, which also finishes the request.
    Worker(Offload),
    /// All of its chunks, because the request takes long.
    Chunks(Chunked),
    /// Its next chunk. This many bytes of the last one are still to be charged.
    NextChunk(u64),
}

impl<T> Outcome<T> {
    /// Not finished. A worker runs `work`, which blocks. Its result is the reply.
    pub fn offload(
        class: BlockingClass,
        work: impl FnOnce() -> Result<InlineReply, Errno> + Send + 'static,
    ) -> Outcome<T> {
        Outcome::Wait(WaitFor::Worker(Offload::Blocks {
            class,
            work: Box::new(work),
        }))
    }

    /// Not finished. `begin` sees to it that its argument is called with the reply, and does not
    /// wait for that.
    pub fn later(begin: impl FnOnce(Finish) + Send + 'static) -> Outcome<T> {
        Outcome::Wait(WaitFor::Worker(Offload::Later(Box::new(begin))))
    }

    /// Not finished. Each call of `next` runs one chunk. Its argument is the backend's error if the
    /// fetch of what the last call missed has failed. Then the call ends the request.
    pub fn chunks(
        mut next: impl FnMut(Option<Errno>) -> VfsResult<Outcome<InlineReply>> + Send + 'static,
    ) -> Outcome<T> {
        let next = move |attempt: Attempt| match next(attempt.failed) {
            Ok(Outcome::Done(reply)) => Outcome::Done(Ok(reply)),
            Ok(Outcome::NoReply) => Outcome::NoReply,
            Ok(Outcome::Wait(wait)) => Outcome::Wait(wait),
            Err(VfsError::Miss(miss)) => Outcome::Wait(WaitFor::Fetch(Missing { miss, op: None })),
            Err(VfsError::Errno(errno)) => Outcome::Done(Err(errno)),
        };
        Outcome::Wait(WaitFor::Chunks(Chunked {
            next: Box::new(next),
        }))
    }
}

/// Positions at the rate limits of the tenants that a request is charged to.
pub(crate) type Permits = [Option<Permit>; 2];

/// What an attempt missed.
pub(crate) struct Missing {
    pub miss: Miss,
    /// The operation that is counted as failed if the fetch fails. `None` for a chunk, and for
    /// pages that the kernel writes back: these run again either way, and count themselves.
    pub op: Option<Op>,
}

/// An attempt at a request: what came before it, and whether another may follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    /// The time at which the request came, if it has waited since.
    pub since: Option<Instant>,
    /// Whether the request can be attempted again a little later.
    pub again: bool,
    /// How often earlier attempts missed something, and it was fetched.
    pub fetches: u8,
    /// Bytes of a write that earlier attempts stored.
    pub written: usize,
    /// Whether the calling thread may block.
    pub may_block: bool,
    /// The backend's error, if the fetch of what the last attempt missed has failed. The request
    /// then ends.
    pub failed: Option<Errno>,
}

impl Attempt {
    /// The first and only attempt, where the request cannot wait.
    pub const ONLY: Attempt = Attempt {
        since: None,
        again: false,
        fetches: 0,
        written: 0,
        may_block: false,
        failed: None,
    };
    /// The first attempt, where the request can wait.
    pub const FIRST: Attempt = Attempt {
        again: true,
        ..Attempt::ONLY
    };
}

/// Called with the result of the work; sends the reply.
pub(crate) type Finish = Box<dyn FnOnce(Result<InlineReply, Errno>) + Send>;

/// Work that blocks. Its result is the reply.
pub(crate) type Work = Box<dyn FnOnce() -> Result<InlineReply, Errno> + Send>;

/// A request that another thread finishes.
pub(crate) enum Offload {
    /// A worker thread runs it.
    Blocks { class: BlockingClass, work: Work },
    /// Something else calls the function that this is given. Beginning it does not block.
    Later(Box<dyn FnOnce(Finish) + Send>),
}

/// Why a request blocks. The classes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockingClass {
    /// It waits for another user, for example to release a lock. That may take for ever, so each
    /// request has a thread of its own.
    Wait,
    /// It waits for a device.
    Io,
    /// It waits for nothing, but takes long and cannot be divided: much is freed or moved at once.
    Whole,
    /// It waits for the backend, which has to give something.
    Fetch,
    /// It waits until the backend has taken what was changed, or until there is memory. A tenant
    /// that changes much may have many of these.
    Room,
    /// It searches a file for data or holes, once the kernel has written back what it has of the
    /// file. Others of this class may be delayed by rate limits of their tenants.
    Seek,
    /// It makes system calls, each of which may take as long as a device does.
    Call,
}

/// A request that takes long. It is divided into chunks that never wait.
pub(crate) struct Chunked {
    /// Runs the next chunk.
    pub next: Box<NextChunk>,
}

/// Runs one chunk.
pub(crate) type NextChunk = dyn FnMut(Attempt) -> Outcome<Result<InlineReply, Errno>> + Send;

/// The body of a reply that is short enough to be stored outside the transport's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InlineReply {
    bytes: [u8; InlineReply::SIZE],
    len: usize,
}

impl Default for InlineReply {
    /// No body.
    fn default() -> InlineReply {
        InlineReply {
            bytes: [0; InlineReply::SIZE],
            len: 0,
        }
    }
}

impl InlineReply {
    /// The length of the longest such body, the attributes, in bytes.
    pub const SIZE: usize = 104;

    /// The bytes of `value`, at most [`InlineReply::SIZE`].
    pub fn new<T: IntoBytes + Immutable>(value: &T) -> InlineReply {
        const { assert!(size_of::<T>() <= InlineReply::SIZE) };
        let mut reply = InlineReply {
            len: size_of::<T>(),
            ..InlineReply::default()
        };
        reply.bytes[..reply.len].copy_from_slice(value.as_bytes());
        reply
    }

    /// A copy of `bytes`; `EIO` if they are too many.
    pub fn copy_of(bytes: &[u8]) -> Result<InlineReply, Errno> {
        let mut reply = InlineReply {
            len: bytes.len(),
            ..InlineReply::default()
        };
        let place = reply.bytes.get_mut(..bytes.len()).ok_or(Errno::EIO)?;
        place.copy_from_slice(bytes);
        Ok(reply)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The time span in which a request was worked on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub began: Instant,
    pub ended: Instant,
}

impl Span {
    /// From `began` until now.
    pub fn since(began: Instant) -> Span {
        Span {
            began,
            ended: Instant::now(),
        }
    }

    /// Its length in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.ended.saturating_duration_since(self.began).as_nanos() as u64
    }
}
