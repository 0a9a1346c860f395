//! Against a model that keeps one cell per byte and owner.

use proptest::prelude::*;

use super::*;

/// The model's last byte stands for itself and all later ones.
const BYTES: u64 = 24;
const OWNERS: u64 = 4;

type Byte = [Option<LockKind>; OWNERS as usize];

#[derive(Default)]
struct Model {
    bytes: [Byte; BYTES as usize],
}

impl Model {
    fn conflicts(&self, request: &LockRequest) -> bool {
        self.range(request).any(|byte| {
            (0..OWNERS).any(|owner| {
                owner != request.owner
                    && byte[owner as usize].is_some_and(|kind| excludes(request.kind, kind))
            })
        })
    }

    fn apply(&mut self, request: &LockRequest) {
        let kind = Some(request.kind).filter(|kind| *kind != Unlock);
        for byte in &mut self.bytes[request.start as usize..=last(request.end) as usize] {
            byte[request.owner as usize] = kind;
        }
    }

    fn range(&self, request: &LockRequest) -> impl Iterator<Item = &Byte> {
        self.bytes[request.start as usize..=last(request.end) as usize].iter()
    }

    /// The longest runs of one kind.
    fn runs(&self, owner: u64) -> Vec<(u64, u64, LockKind)> {
        let mut runs: Vec<(u64, u64, LockKind)> = Vec::new();
        for (at, byte) in (0..).zip(&self.bytes) {
            let Some(kind) = byte[owner as usize] else {
                continue;
            };
            let end = if at == BYTES - 1 {
                LockRequest::EOF
            } else {
                at
            };
            match runs.last_mut() {
                Some(run) if run.1 + 1 == at && run.2 == kind => run.1 = end,
                _ => runs.push((at, end, kind)),
            }
        }
        runs
    }
}

fn excludes(a: LockKind, b: LockKind) -> bool {
    a != Unlock && (a == Write || b == Write)
}

fn last(end: u64) -> u64 {
    end.min(BYTES - 1)
}

fn request() -> impl Strategy<Value = LockRequest> {
    let kind = prop_oneof![Just(Read), Just(Write), Just(Unlock)];
    (0..OWNERS, kind, 0..BYTES, 0..BYTES).prop_map(|(owner, kind, a, b)| {
        let end = if a.max(b) == BYTES - 1 {
            LockRequest::EOF
        } else {
            a.max(b)
        };
        posix(owner, kind, a.min(b), end)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn locked_ranges_equal_a_model_of_single_bytes(
        requests in prop::collection::vec(request(), 1..60),
    ) {
        let locks = FileLocks::new();
        let mut model = Model::default();
        for request in &requests {
            let conflict = locks.get(request);
            prop_assert_eq!(conflict.is_some(), model.conflicts(request));
            if let Some(found) = conflict {
                let run = (found.start, found.end, found.kind);
                prop_assert!(found.owner != request.owner);
                prop_assert!(excludes(request.kind, found.kind));
                prop_assert!(found.start <= request.end && found.end >= request.start);
                prop_assert!(model.runs(found.owner).contains(&run));
            }
            let answer = locks.set(request, None);
            let expected = if conflict.is_some() { Err(Errno::EAGAIN) } else { Ok(()) };
            prop_assert_eq!(answer, expected);
            if answer.is_ok() {
                model.apply(request);
            }
            for owner in 0..OWNERS {
                let ranges = locks.shared.state.lock().held.ranges(owner).into_iter();
                let ranges: Vec<_> = ranges.map(|(s, range)| (s, range.end, range.kind)).collect();
                prop_assert_eq!(ranges, model.runs(owner));
            }
        }
        for owner in 0..OWNERS {
            locks.release_owner(owner, false);
        }
        prop_assert!(locks.is_empty());
    }
}
