//! The trait of a request that left the thread which took it.

use super::outcome::LateReply;
use super::outcome::{Attempt, Finish, WaitFor};
use super::service::Service;
use super::waiting::RequestId;
use crate::wire::InHeader;
use hearth::Errno;

/// A request that a task owns, with the means to send its reply.
pub(crate) trait PendingRequest: Send + 'static {
    /// The identity of the request, and of the thread that waits for it.
    fn id(&self) -> RequestId;

    /// The header of the request.
    fn header(&self) -> InHeader;

    /// Attempts the request once more. Returns `None` if it is finished and its reply sent;
    /// otherwise the request and what it waits for.
    fn attempt<S: Service>(self, service: &S, attempt: Attempt) -> Option<(Self, WaitFor)>
    where
        Self: Sized;

    /// Has `late` send the result of an attempt, or of work, when its time has come.
    fn reply_late(&mut self, late: LateReply);

    /// Replies with this error.
    fn refuse(self, errno: Errno);

    /// Returns a function that replies with the result of work that another thread does.
    fn finish(self) -> Finish;
}
