//! A request in the memory of its ring entry: read, handled in place, and handed to a task.

use super::completions::{Completion, CompletionQueue};
use super::region::Region;
use crate::wait::outcome::LateReply;
use crate::wait::outcome::{Attempt, Finish, InlineReply, Outcome, WaitFor};
use crate::wait::pending_request::PendingRequest;
use crate::wait::service::{Handled, Service};
use crate::wait::waiting::RequestId;
use crate::wire::request::RawRequest;
use crate::wire::{InHeader, Opcode};
use hearth::Errno;
use hearth_sync::primitive::Arc;

/// Requests with less payload are copied out, so that the reply can be built in place.
pub(super) const COPIED: usize = 8192;

/// Attempts the request in an entry. The reply's body is in the entry's payload afterwards.
/// `scratch` has [`COPIED`] bytes.
pub(super) fn handle<S: Service>(
    service: &S,
    region: &mut Region,
    scratch: &mut [u8],
    attempt: Attempt,
) -> Handled {
    let (header, _) = region.request();
    let (head, payload) = region.split();
    let size = (head.ent.payload_sz as usize).min(payload.len());
    let fixed = Opcode::from_number(header.opcode).map_or(0, Opcode::fixed_size);
    let args = &head.op_in[..fixed.min(head.op_in.len())];
    let raw = |payload| RawRequest {
        header,
        args,
        payload,
    };
    if size <= COPIED {
        let (copy, _) = scratch.split_at_mut(size);
        copy.copy_from_slice(&payload[..size]);
        return service.handle(&raw(copy), payload, attempt);
    }
    let handled = service.handle(&raw(&payload[..size]), scratch, attempt);
    if let Outcome::Done(Ok(len)) = handled.outcome {
        payload[..len].copy_from_slice(&scratch[..len]);
    }
    handled
}

/// A request that a task owns, with the memory of its entry.
pub(super) struct RingRequest {
    index: usize,
    header: InHeader,
    region: Region,
    completions: Arc<CompletionQueue>,
    /// Sends the result, where that has to wait.
    late: Option<LateReply>,
}

impl RingRequest {
    /// The request in entry `index`.
    pub fn new(
        index: usize,
        mut region: Region,
        completions: &Arc<CompletionQueue>,
    ) -> RingRequest {
        RingRequest {
            index,
            header: region.request().0,
            region,
            completions: Arc::clone(completions),
            late: None,
        }
    }

    /// Replies with so many bytes of the payload.
    fn done(mut self, result: Result<usize, Errno>) {
        let Some(late) = self.late.take() else {
            return self.send(result);
        };
        let body = |len| InlineReply::copy_of(&self.region.split().1[..len]);
        late(result.and_then(body), self.finish_late());
    }

    /// What sends the result when its time has come. The entry's payload takes no memory meanwhile.
    fn finish_late(mut self) -> Finish {
        self.region.discard_payload();
        self.finish_now()
    }

    /// What sends the result at once.
    fn finish_now(mut self) -> Finish {
        Box::new(move |result: Result<InlineReply, Errno>| {
            let result = result.map(|reply| {
                let body = reply.bytes();
                self.region.split().1[..body.len()].copy_from_slice(body);
                body.len()
            });
            self.send(result);
        })
    }

    fn send(self, result: Result<usize, Errno>) {
        let completion = Completion::Task(self.index, self.region, result);
        self.completions.push(completion);
    }
}

impl PendingRequest for RingRequest {
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
    ) -> Option<(RingRequest, WaitFor)> {
        let mut scratch = [0; COPIED];
        match handle(service, &mut self.region, &mut scratch, attempt).outcome {
            Outcome::Done(result) => self.done(result),
            // The entry goes back to the kernel either way.
            Outcome::NoReply => self.send(Ok(0)),
            Outcome::Wait(wait) => return Some((self, wait)),
        }
        None
    }

    fn reply_late(&mut self, late: LateReply) {
        self.late = Some(late);
    }

    fn refuse(self, errno: Errno) {
        self.send(Err(errno));
    }

    fn finish(mut self) -> Finish {
        match self.late.take() {
            Some(late) => {
                let finish = self.finish_late();
                Box::new(|result| late(result, finish))
            }
            None => self.finish_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::outcome::{Missing, Span};
    use crate::wire::RingHeader;
    use hearth::TenantId;
    use proptest::prelude::*;
    use std::time::Instant;
    use zerocopy::IntoBytes;

    const PAYLOAD: usize = 32 << 10;

    /// Decodes all of a request, and fills the whole reply.
    struct Reads;

    impl Service for Reads {
        fn handle(&self, request: &RawRequest<'_>, out: &mut [u8], _attempt: Attempt) -> Handled {
            if let Ok(operation) = request.operation() {
                assert!(!format!("{operation:?}").is_empty());
            }
            assert!(request.groups().ids().len() <= 16);
            out.fill(7);
            Handled {
                outcome: Outcome::Done(Ok(out.len())),
                span: Span::since(Instant::now()),
            }
        }

        fn tenant(&self, _header: &InHeader) -> TenantId {
            unreachable!("no task is made")
        }

        fn awaits_returns(&self) -> bool {
            false
        }

        fn fetch(&self, _missing: &Missing) -> Result<(), Errno> {
            unreachable!("nothing is missed")
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// As the kernel lays it out: header, fixed argument and payload apart. Nothing of it is
        /// believed, not its sizes either.
        #[test]
        fn whatever_is_in_an_entry_never_panics(
            head in prop::collection::vec(any::<u8>(), size_of::<RingHeader>()),
            body in prop::collection::vec(any::<u8>(), 0..600),
            known in prop::option::of(prop::sample::select(Opcode::ALL)),
            size in prop_oneof![0u32..1000, 8000u32..9000, any::<u32>()],
        ) {
            let mut region = Region::map(PAYLOAD).unwrap();
            let (entry, payload) = region.split();
            entry.as_mut_bytes().copy_from_slice(&head);
            if let Some(opcode) = known {
                entry.in_out[4..8].copy_from_slice(&(opcode as u32).to_le_bytes());
            }
            entry.ent.payload_sz = size;
            payload[..body.len()].copy_from_slice(&body);
            let unique = region.request().0.unique;
            prop_assert_eq!(unique.to_le_bytes(), &head[8..16]);
            let handled = handle(&Reads, &mut region, &mut [0; COPIED], Attempt::ONLY);
            let Outcome::Done(Ok(len)) = handled.outcome else {
                panic!("it is answered")
            };
            prop_assert!(region.split().1[..len].iter().all(|&byte| byte == 7));
        }
    }
}
