//! A request in the memory of its ring entry: how it is read, handled in place, and parked.

use super::completions::{Completion, CompletionQueue};
use super::region::Region;
use crate::wait::request_task::{PendingRequest, Step};
use crate::wait::service::{Answer, Attempt, Handled, InlineReply, Service};
use crate::wait::waiting::RequestId;
use crate::wait::workers::Finish;
use crate::wire::request::RawRequest;
use crate::wire::{InHeader, Opcode};
use hearth::Errno;
use hearth_sync::primitive::Arc;
use zerocopy::FromBytes;

/// Requests with less payload are copied out, so that the answer can be built in place.
pub(super) const COPIED: usize = 8192;

/// Header and fixed argument of the request in an entry.
pub(super) fn header(region: &mut Region) -> (InHeader, &[u8]) {
    let (head, _) = region.split();
    let header = InHeader::read_from_prefix(&head.in_out[..])
        .map(|(header, _)| header)
        .unwrap_or_default();
    let fixed = Opcode::from_number(header.opcode).map_or(0, Opcode::fixed_size);
    (header, &head.op_in[..fixed.min(head.op_in.len())])
}

/// Handles the request in an entry; the answer's body is in its payload afterwards. `scratch` has
/// [`COPIED`] bytes.
pub(super) fn answer<S: Service>(
    service: &S,
    region: &mut Region,
    scratch: &mut [u8],
    attempt: Attempt,
) -> Handled {
    let (header, _) = header(region);
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
    if let Answer::Reply(len) = handled.answer {
        payload[..len].copy_from_slice(&scratch[..len]);
    }
    handled
}

/// A parked request with the memory of its entry.
pub(super) struct RingRequest {
    index: usize,
    asker: RequestId,
    region: Region,
    mailbox: Arc<CompletionQueue>,
}

impl RingRequest {
    /// The request in entry `index`.
    pub fn new(index: usize, mut region: Region, mailbox: &Arc<CompletionQueue>) -> RingRequest {
        RingRequest {
            index,
            asker: RequestId::of(&header(&mut region).0),
            region,
            mailbox: Arc::clone(mailbox),
        }
    }

    fn send(self, result: Result<usize, Errno>) {
        let letter = Completion::Parked(self.index, self.region, result);
        self.mailbox.put(letter);
    }
}

impl PendingRequest for RingRequest {
    fn asker(&self) -> RequestId {
        self.asker
    }

    fn work<S: Service>(mut self, service: &S, attempt: Attempt) -> Step<RingRequest> {
        let mut scratch = [0; COPIED];
        let handled = answer(service, &mut self.region, &mut scratch, attempt);
        Step::of(handled.answer, self, RingRequest::send)
    }

    fn refuse(self, errno: Errno) {
        self.send(Err(errno));
    }

    fn finish(mut self) -> Finish {
        Box::new(move |result: Result<InlineReply, Errno>| {
            let result = result.map(|small| {
                let small = small.bytes();
                self.region.split().1[..small.len()].copy_from_slice(small);
                small.len()
            });
            self.send(result);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::service::{Absent, Span};
    use crate::wire::RingHeader;
    use hearth::TenantId;
    use proptest::prelude::*;
    use std::time::Instant;
    use zerocopy::IntoBytes;

    const PAYLOAD: usize = 32 << 10;

    /// Reads all of a request, and answers with as much as there is room for.
    struct Reads;

    impl Service for Reads {
        fn handle(&self, request: &RawRequest<'_>, out: &mut [u8], _attempt: Attempt) -> Handled {
            if let Ok(operation) = request.operation() {
                assert!(!format!("{operation:?}").is_empty());
            }
            assert!(request.groups().ids().len() <= 16);
            out.fill(7);
            Handled {
                answer: Answer::Reply(out.len()),
                span: Span::since(Instant::now()),
            }
        }

        fn tenant(&self, _header: &InHeader) -> TenantId {
            unreachable!("nothing is parked")
        }

        fn awaits_returns(&self) -> bool {
            false
        }

        fn bring(&self, _absent: &Absent) -> Result<(), Errno> {
            unreachable!("nothing is absent")
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
            let unique = header(&mut region).0.unique;
            prop_assert_eq!(unique.to_le_bytes(), &head[8..16]);
            let handled = answer(&Reads, &mut region, &mut [0; COPIED], Attempt::ONLY);
            let Answer::Reply(len) = handled.answer else {
                panic!("it is answered")
            };
            prop_assert!(region.split().1[..len].iter().all(|&byte| byte == 7));
        }
    }
}
