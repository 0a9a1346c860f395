//! The trait between transports, which bring requests and carry replies away, and the dispatcher.

use super::outcome::{Attempt, Missing, Outcome, Span};
use crate::wire::InHeader;
use crate::wire::request::RawRequest;
use hearth::{Errno, TenantId};

/// Handles requests. All threads that carry requests call it at the same time.
pub(crate) trait Service: Send + Sync + 'static {
    /// Attempts one request and writes the body of the reply into `out`. Must not block: what would
    /// block is returned as [`Outcome::Wait`].
    fn handle(&self, request: &RawRequest<'_>, out: &mut [u8], attempt: Attempt) -> Handled;

    /// Whether the request with this header may block. [`Service::handle`] is then called for it on
    /// threads that may wait.
    fn may_block(&self, _header: &InHeader) -> bool {
        false
    }

    /// The tenant of the request with this header.
    fn tenant(&self, header: &InHeader) -> TenantId;

    /// Whether space that the kernel has given up may still be on its way back.
    fn awaits_returns(&self) -> bool;

    /// Fetches what a request missed. May block.
    ///
    /// # Errors
    /// The request fails with this error.
    fn fetch(&self, missing: &Missing) -> Result<(), Errno>;
}

/// How an attempt at a request ended, and when it ran.
pub(crate) struct Handled {
    /// The bytes of `out` that are the reply's body, or the error of the reply.
    pub outcome: Outcome<Result<usize, Errno>>,
    pub span: Span,
}
