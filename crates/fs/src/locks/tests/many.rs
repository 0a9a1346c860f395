//! Many requests that wait: what a change of the locks looks at, and what it grants.

use proptest::prelude::*;

use super::*;
use crate::locks::held::LOOKS;
use crate::locks::wait::FOLLOWED;

const OWNERS: u64 = 6;
const BYTES: u64 = 12;

/// The state of a file without its lock, whose requests wait in no thread.
struct Fixture {
    locks: FileLocks,
    graph: WaitGraph,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture {
            locks: FileLocks::new(),
            graph: WaitGraph::new(),
        }
    }

    /// Asks, and waits if `waits`; returns how many requests this decides later.
    fn set(&self, request: LockRequest, waits: bool) -> Result<usize, Errno> {
        let wait = Wait {
            graph: &self.graph,
            interrupt: None,
        };
        let mut decided = Vec::new();
        let mut state = self.locks.shared.state.lock();
        state.set(&request, waits.then_some(wait), &mut decided)?;
        Ok(decided.len())
    }
}

/// Regression: each grant looked at all that waited, 40 s in all for 1,448 requests.
#[test]
fn requests_that_free_the_way_for_each_other_look_at_each_owner_a_few_times() {
    for make in [posix, ofd] {
        let (fixture, count) = (Fixture::new(), 60);
        for owner in 0..count {
            fixture
                .set(make(owner, Write, owner, owner), false)
                .unwrap();
        }
        // Each makes its own byte shared, when the byte before is.
        for owner in (1..count).rev() {
            fixture
                .set(make(owner, Read, owner - 1, owner), true)
                .unwrap();
        }
        LOOKS.set(0);
        let granted = fixture.set(make(0, Unlock, 0, 0), false);
        assert_eq!(granted, Ok(count as usize - 1));
        assert!(LOOKS.get() < 4 * count * count, "{} looks", LOOKS.get());
    }
}

/// Regression: circles were looked for from each request that waited, 1.5 s in all for 1,400 that
/// waited for 64 owners each.
#[test]
fn circles_are_looked_for_by_following_each_edge_once() {
    let (fixture, count) = (Fixture::new(), 50);
    // Each reads the bytes behind its own and waits for those that read its own: all before it.
    for owner in 0..count {
        fixture
            .set(posix(owner, Read, owner + 1, count), false)
            .unwrap();
    }
    for owner in 1..count {
        fixture
            .set(posix(owner, Write, owner, owner), true)
            .unwrap();
    }
    FOLLOWED.set(0);
    let reader = posix(count, Read, count - 1, count - 1);
    assert_eq!(fixture.set(reader, false), Ok(0));
    let (followed, edges) = (FOLLOWED.get(), fixture.graph.edges() as u64);
    assert!(edges >= count * (count - 1) / 2, "{edges} edges");
    assert!(followed < 4 * edges, "{followed} of {edges} edges");
}

/// Regression: of circles that one change closes each was looked for anew.
#[test]
fn circles_that_one_change_closes_are_broken_by_following_each_edge_a_few_times() {
    let (fixture, count) = (Fixture::new(), 40);
    let (hub, holder, byte) = (0, count + 1, count + 1);
    for owner in 1..=holder {
        fixture
            .set(posix(owner, Write, owner, owner), false)
            .unwrap();
    }
    // The threads of one owner wait for everybody, and everybody for what that owner is to get.
    for of in (1..=holder).rev() {
        fixture.set(posix(hub, Write, of, of), true).unwrap();
    }
    for owner in 1..=count {
        fixture.set(posix(owner, Write, byte, byte), true).unwrap();
    }
    let edges = fixture.graph.edges() as u64;
    FOLLOWED.set(0);
    let decided = fixture.set(posix(holder, Unlock, byte, byte), false);
    // That lock, eight calls for a circle each, and both calls of each other circle.
    assert_eq!(decided, Ok(1 + 8 + 2 * (count as usize - 8)));
    let followed = FOLLOWED.get();
    assert!(followed < 32 * edges, "{followed} of {edges} edges");
}

fn request() -> impl Strategy<Value = (LockRequest, bool)> {
    let kind = prop_oneof![Just(Read), Just(Read), Just(Write), Just(Unlock)];
    let sort = prop_oneof![
        Just(posix as fn(u64, LockKind, u64, u64) -> LockRequest),
        Just(ofd as fn(u64, LockKind, u64, u64) -> LockRequest),
        Just((|owner, kind, _, _| flock(owner, kind)) as fn(u64, LockKind, u64, u64) -> _),
    ];
    (sort, 0..OWNERS, kind, 0..BYTES, 0..BYTES, any::<bool>())
        .prop_map(|(make, owner, kind, a, b, waits)| (make(owner, kind, a.min(b), a.max(b)), waits))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn who_waits_conflicts_with_a_lock(
        requests in prop::collection::vec(request(), 1..60),
    ) {
        let fixture = Fixture::new();
        for (request, waits) in requests {
            let _ = fixture.set(request, waits);
            let state = fixture.locks.shared.state.lock();
            for waiting in &state.queue {
                let blocker = state.held.conflicts(&waiting.request).next();
                prop_assert!(blocker.is_some(), "{:?} waits for nobody", waiting.request);
            }
        }
    }
}
