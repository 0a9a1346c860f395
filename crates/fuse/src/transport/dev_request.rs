//! A request from `/dev/fuse` that a task owns, and replies through the device.

use super::buffer::Buffer;
use super::device::Device;
use crate::log::say;
use crate::wait::outcome::LateReply;
use crate::wait::outcome::{Attempt, Finish, InlineReply, Outcome, WaitFor};
use crate::wait::pending_request::PendingRequest;
use crate::wait::service::Service;
use crate::wait::waiting::RequestId;
use crate::wire::InHeader;
use crate::wire::request::RawRequest;
use hearth::Errno;
use hearth_sync::primitive::{Arc, thread_local};
use std::cell::RefCell;
use std::io;

/// A request that was copied out of its reader's buffer. The reply goes through the descriptor that
/// it came from.
pub(super) struct DevRequest {
    bytes: Box<[u8]>,
    header: InHeader,
    setxattr_ext: bool,
    device: Arc<Device>,
    /// Bytes that the reply may have.
    reply_max: usize,
    /// Sends the result, where that has to wait.
    late: Option<LateReply>,
}

thread_local! {
    /// Where a task builds a reply, which is sent before the task is suspended.
    static REPLY: RefCell<Option<Buffer>> = const { RefCell::new(None) };
}

impl DevRequest {
    /// A copy of `request`, whose parts are `raw`.
    pub fn new(
        device: &Arc<Device>,
        raw: &RawRequest<'_>,
        request: &[u8],
        setxattr_ext: bool,
        reply_max: usize,
    ) -> DevRequest {
        DevRequest {
            bytes: request.into(),
            header: raw.header,
            setxattr_ext,
            device: Arc::clone(device),
            reply_max,
            late: None,
        }
    }
}

impl PendingRequest for DevRequest {
    fn id(&self) -> RequestId {
        RequestId::new(self.header.unique, self.header.pid)
    }

    fn header(&self) -> InHeader {
        self.header
    }

    fn attempt<S: Service>(
        mut self,
        service: &S,
        attempt: Attempt,
    ) -> Option<(DevRequest, WaitFor)> {
        let raw = RawRequest::from_buffer(&self.bytes, self.setxattr_ext)?;
        let wait = REPLY.with_borrow_mut(|buffer| {
            let buffer = buffer.get_or_insert_with(|| Buffer::new(self.reply_max, 0));
            if buffer.bytes().len() < self.reply_max {
                *buffer = Buffer::new(self.reply_max, 0);
            }
            let out = buffer.bytes();
            match service.handle(&raw, out, attempt).outcome {
                Outcome::Done(result) => {
                    let result = result.map(|size| &out[..size]);
                    match self.late.take() {
                        Some(late) => {
                            let result = result.and_then(InlineReply::copy_of);
                            late(result, finish(Arc::clone(&self.device), self.header.unique));
                        }
                        None => send(&self.device, self.header.unique, result),
                    }
                    None
                }
                Outcome::NoReply => None,
                Outcome::Wait(wait) => Some(wait),
            }
        })?;
        Some((self, wait))
    }

    fn reply_late(&mut self, late: LateReply) {
        self.late = Some(late);
    }

    fn refuse(self, errno: Errno) {
        send(&self.device, self.header.unique, Err(errno));
    }

    fn finish(self) -> Finish {
        let finish = finish(self.device, self.header.unique);
        match self.late {
            Some(late) => Box::new(|result| late(result, finish)),
            None => finish,
        }
    }
}

/// Replies to request `unique` with the result of somebody else's work.
pub(super) fn finish(device: Arc<Device>, unique: u64) -> Finish {
    Box::new(move |result: Result<InlineReply, Errno>| {
        let result = result.as_ref().map(InlineReply::bytes);
        send(&device, unique, result.map_err(|&errno| errno));
    })
}

/// Replies to request `unique`.
pub(super) fn send(device: &Device, unique: u64, result: Result<&[u8], Errno>) {
    reply(unique, result, |result| device.answer(unique, result));
}

/// Sends `result` by `answer`. A reply that the kernel refuses leaves the request waiting, and its
/// caller cannot be killed. So that is worth a line in the log, and `EIO` is sent in its place.
fn reply(
    unique: u64,
    result: Result<&[u8], Errno>,
    mut answer: impl FnMut(Result<&[u8], Errno>) -> io::Result<()>,
) {
    let Err(error) = answer(result) else {
        return;
    };
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::ECONNABORTED | libc::ENOTCONN) => return,
        _ => say(format_args!("answering request {unique}: {error}")),
    }
    // The request is gone if the kernel found the fault late; then nobody waits for this.
    let _ = answer(Err(Errno::EIO));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the caller of a request whose reply the kernel refused hung for ever.
    #[test]
    fn a_refused_reply_is_followed_by_eio_unless_the_mount_is_gone() {
        for (refusal, more) in [(libc::EINVAL, 1), (libc::ENOMEM, 1), (libc::ENODEV, 0)] {
            let mut sent = Vec::new();
            reply(7, Ok(b"body"), |result| {
                sent.push(result.map(<[u8]>::to_vec));
                Err(io::Error::from_raw_os_error(refusal))
            });
            assert_eq!(sent[0], Ok(b"body".to_vec()));
            assert_eq!(sent[1..], vec![Err(Errno::EIO); more], "{refusal}");
        }
        let mut sent = 0;
        reply(7, Ok(b"body"), |_| {
            sent += 1;
            Ok(())
        });
        assert_eq!(sent, 1);
    }
}
