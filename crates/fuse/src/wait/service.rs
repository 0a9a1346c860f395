//! The seam between transports and the filesystem: a transport brings requests and carries answers
//! away.

use crate::wire::request::RawRequest;
use crate::wire::{AttrOut, InHeader};
use hearth::{Errno, Op, TenantId};
use std::time::Instant;
use zerocopy::{Immutable, IntoBytes};

/// Answers requests; called by every queue thread at once.
pub(crate) trait Service: Send + Sync + 'static {
    /// Answers one request, or says who will. The body of the answer is written into `out`. Must
    /// not block: what may block is returned as [`Answer::Offload`] or [`Answer::Absent`].
    fn handle(&self, request: &RawRequest<'_>, out: &mut [u8], attempt: Attempt) -> Handled;

    /// Whose a request is.
    fn tenant(&self, header: &InHeader) -> TenantId;

    /// Whether room may be on its way back that the kernel has given up.
    fn awaits_returns(&self) -> bool;

    /// Brings what a request lacked, and may block for it.
    ///
    /// # Errors
    /// The request's answer.
    fn bring(&self, absent: &Absent) -> Result<(), Errno>;
}

/// How often a request was and may be handled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    /// When it came, if it was parked since.
    pub since: Option<Instant>,
    /// Whether it can be handled again a little later.
    pub again: bool,
    /// Bytes of a write that earlier attempts found room for.
    pub done: usize,
}

impl Attempt {
    /// Where nothing can be parked.
    pub const ONLY: Attempt = Attempt {
        since: None,
        again: false,
        done: 0,
    };
    /// Where it can.
    pub const FIRST: Attempt = Attempt {
        since: None,
        again: true,
        done: 0,
    };
}

/// What became of a request, and when it was worked on.
pub(crate) struct Handled {
    pub answer: Answer,
    pub span: Span,
}

/// From when until when a request was worked on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub began: Instant,
    pub ended: Instant,
}

impl Span {
    /// Until now.
    pub fn since(began: Instant) -> Span {
        Span {
            began,
            ended: Instant::now(),
        }
    }

    /// How long, in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.ended.saturating_duration_since(self.began).as_nanos() as u64
    }
}

/// What a request lacks.
pub(crate) struct Absent {
    pub what: hearth::Absent,
    /// What it counts as if that cannot be brought: the request ends with it. `None` where whoever
    /// asks goes on and counts.
    pub op: Option<Op>,
}

/// What becomes of a request.
pub(crate) enum Answer {
    /// Success; this many bytes were written.
    Reply(usize),
    /// This error, or success without a body (`0`).
    Error(Errno),
    /// The kernel expects no answer.
    Silent,
    /// May block: to be run by a worker, which then answers.
    Offload(Offload),
    /// Takes long: to be done in pieces, between which others have their turns.
    Pieces(Pieces),
    /// There is no room for it, but some may be on its way back: to be handled again. So many bytes
    /// of it are written.
    Refused(usize),
    /// Something must be brought first; then the request is to be handled again.
    Absent(Absent),
}

/// A request that may block, ready to be run on a worker thread.
pub(crate) struct Offload {
    pub lane: BlockingClass,
    pub work: Box<dyn FnOnce() -> Result<InlineReply, Errno> + Send>,
}

/// A request that takes long, ready to be done in pieces.
pub(crate) struct Pieces {
    /// Does the next one, without waiting.
    pub next: Box<dyn FnMut(Try) -> Piece + Send>,
}

/// How a piece is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Try {
    /// If there is no room for it, it can be tried again a little later.
    Again,
    /// If there is no room for it, that is the answer.
    Last,
    /// What it lacked cannot be brought, for this reason: the request ends.
    Without(Errno),
}

/// What became of a piece.
pub(crate) enum Piece {
    /// There is another one. So many bytes of this one are still to be charged.
    More(u64),
    /// It was the last: the request's answer.
    Last(Result<InlineReply, Errno>),
    /// Something must be brought first; then it is to be tried again.
    Absent(Absent),
    /// There is no room for it, but some may be on its way back: to be tried again.
    Refused,
}

/// Why a request may block; the lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockingClass {
    /// For somebody else, to give up a lock for one: perhaps for ever, so each has its own thread.
    Wait,
    /// For a device.
    Io,
    /// For nobody, but it takes long and cannot be parted: much is given back, or moved, at once.
    Whole,
    /// For the home to bring something.
    Load,
}

/// Bytes of the longest answer that is given late.
const SMALL: usize = size_of::<AttrOut>();

/// The body of an answer that was given late: a few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InlineReply {
    bytes: [u8; SMALL],
    len: usize,
}

impl Default for InlineReply {
    /// No body.
    fn default() -> InlineReply {
        InlineReply {
            bytes: [0; SMALL],
            len: 0,
        }
    }
}

impl InlineReply {
    /// The bytes of `value`, which has no more than attributes have.
    pub fn new<T: IntoBytes + Immutable>(value: &T) -> InlineReply {
        let mut small = InlineReply {
            len: size_of::<T>(),
            ..InlineReply::default()
        };
        small.bytes[..small.len].copy_from_slice(value.as_bytes());
        small
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
