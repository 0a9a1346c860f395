//! Requests that block: each waits in a thread of its own, and the test goes on once the file's
//! queue says that it waits.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use hearth_sync::primitive::thread::{self, JoinHandle};

use super::*;

const A: u64 = 1;
const B: u64 = 2;
const C: u64 = 3;

/// Two files of one volume.
#[derive(Default)]
struct Fixture {
    f: FileLocks,
    g: FileLocks,
    graph: WaitGraph,
}

type Waiting = JoinHandle<Result<(), Errno>>;

impl Fixture {
    fn start(
        self: &Arc<Self>,
        file: fn(&Fixture) -> &FileLocks,
        request: LockRequest,
        interrupt: Option<&Interrupt>,
    ) -> Waiting {
        let waiting = file(self).waiting();
        let fixture = Arc::clone(self);
        let interrupt = interrupt.cloned();
        let thread = thread::spawn(move || {
            let wait = Wait {
                graph: &fixture.graph,
                interrupt: interrupt.as_ref(),
            };
            file(&fixture).set(&request, Some(wait))
        });
        while file(self).waiting() == waiting {
            assert!(!thread.is_finished(), "{request:?} did not wait");
            thread::yield_now();
        }
        thread
    }

    fn in_f(self: &Arc<Self>, request: LockRequest) -> Waiting {
        self.start(|fixture| &fixture.f, request, None)
    }

    fn in_g(self: &Arc<Self>, request: LockRequest) -> Waiting {
        self.start(|fixture| &fixture.g, request, None)
    }

    fn wait(&self) -> Option<Wait<'_>> {
        Some(Wait {
            graph: &self.graph,
            interrupt: None,
        })
    }
}

#[test]
fn an_unlock_grants_the_lock_to_the_waiter_before_anyone_else_can_take_it() {
    let fixture = Arc::new(Fixture::default());
    fixture.f.set(&posix(A, Write, 0, 9), None).unwrap();
    let waiting = fixture.in_f(posix(B, Write, 5, 5));
    fixture.f.set(&posix(A, Unlock, 5, 5), None).unwrap();
    assert_eq!(
        fixture.f.set(&posix(C, Read, 5, 5), None),
        Err(Errno::EAGAIN)
    );
    assert_eq!(
        fixture.f.get(&posix(C, Read, 5, 5)),
        Some(posix(B, Write, 5, 5))
    );
    assert_eq!(waiting.join().unwrap(), Ok(()));
    assert!(fixture.graph.is_empty());
}

#[test]
fn requests_are_granted_in_the_order_of_their_arrival() {
    for make in [flock as fn(u64, LockKind) -> LockRequest, |o, k| {
        posix(o, k, 0, 0)
    }] {
        let fixture = Arc::new(Fixture::default());
        fixture.f.set(&make(0, Write), None).unwrap();
        let threads: Vec<_> = (1..5)
            .map(|owner| fixture.in_f(make(owner, Write)))
            .collect();
        for (owner, thread) in (1..).zip(threads) {
            fixture.f.set(&make(owner - 1, Unlock), None).unwrap();
            assert_eq!(fixture.f.get(&make(99, Read)).unwrap().owner, owner);
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
    }
}

#[test]
fn all_readers_up_to_the_next_writer_are_granted_together() {
    let fixture = Arc::new(Fixture::default());
    fixture.f.set(&flock(A, Write), None).unwrap();
    let readers = [fixture.in_f(flock(B, Read)), fixture.in_f(flock(C, Read))];
    let writer = fixture.in_f(flock(9, Write));
    fixture.f.release_owner(A, true);
    assert!(
        readers
            .into_iter()
            .all(|reader| reader.join().unwrap() == Ok(()))
    );
    assert_eq!(fixture.f.waiting(), 1);
    fixture.f.release_owner(B, true);
    fixture.f.release_owner(C, true);
    assert_eq!(writer.join().unwrap(), Ok(()));
}

#[test]
fn a_downgrade_lets_waiting_readers_in() {
    let fixture = Arc::new(Fixture::default());
    fixture.f.set(&posix(A, Write, 0, 9), None).unwrap();
    let reader = fixture.in_f(posix(B, Read, 9, 20));
    fixture.f.set(&posix(A, Read, 0, 9), None).unwrap();
    assert_eq!(reader.join().unwrap(), Ok(()));
}

#[test]
fn an_interrupt_ends_the_wait_and_leaves_nothing_behind() {
    for request in [posix(B, Write, 0, 0), ofd(B, Write, 0, 0), flock(B, Write)] {
        let fixture = Arc::new(Fixture::default());
        fixture
            .f
            .set(
                &LockRequest {
                    owner: A,
                    ..request
                },
                None,
            )
            .unwrap();
        let interrupt = Interrupt::new();
        let waiting = fixture.start(|fixture| &fixture.f, request, Some(&interrupt));
        assert!(!interrupt.is_triggered());
        interrupt.trigger();
        assert_eq!(waiting.join().unwrap(), Err(Errno::EINTR));
        assert_eq!(fixture.f.waiting(), 0);
        assert!(fixture.graph.is_empty());
        let wait = Some(Wait {
            graph: &fixture.graph,
            interrupt: Some(&interrupt),
        });
        assert_eq!(
            fixture.f.set(&request, wait),
            Err(Errno::EINTR),
            "triggered before"
        );
        fixture.f.release_owner(A, request.flock);
        assert_eq!(fixture.f.set(&request, wait), Ok(()), "nothing to wait for");
    }
}

#[test]
fn a_cycle_of_waits_over_two_files_is_refused_to_the_request_that_closes_it() {
    let fixture = Arc::new(Fixture::default());
    fixture.f.set(&posix(A, Write, 0, 0), None).unwrap();
    fixture.g.set(&posix(B, Read, 0, 0), None).unwrap();
    let waiting = fixture.in_g(posix(A, Write, 0, 0));
    let closing = posix(B, Read, 0, 0);
    assert_eq!(fixture.f.set(&closing, fixture.wait()), Err(Errno::EDEADLK));
    assert_eq!(fixture.f.set(&closing, None), Err(Errno::EAGAIN));
    fixture.g.release_owner(B, false);
    assert_eq!(waiting.join().unwrap(), Ok(()));
    assert!(fixture.graph.is_empty());
}

#[test]
fn a_cycle_of_three_is_found_through_the_one_in_the_middle() {
    let fixture = Arc::new(Fixture::default());
    for (owner, at) in [(A, 0), (B, 1), (C, 2)] {
        fixture.f.set(&posix(owner, Write, at, at), None).unwrap();
    }
    let a = fixture.in_f(posix(A, Write, 1, 1));
    let b = fixture.in_f(posix(B, Write, 2, 2));
    assert_eq!(
        fixture.f.set(&posix(C, Write, 0, 0), fixture.wait()),
        Err(Errno::EDEADLK)
    );
    fixture.f.release_owner(C, false);
    assert_eq!(b.join().unwrap(), Ok(()));
    fixture.f.release_owner(B, false);
    assert_eq!(a.join().unwrap(), Ok(()));
}

#[test]
fn two_readers_that_both_wait_to_write_are_a_deadlock() {
    let fixture = Arc::new(Fixture::default());
    fixture.f.set(&posix(A, Read, 0, 0), None).unwrap();
    fixture.f.set(&posix(B, Read, 0, 0), None).unwrap();
    let first = fixture.in_f(posix(A, Write, 0, 0));
    assert_eq!(
        fixture.f.set(&posix(B, Write, 0, 0), fixture.wait()),
        Err(Errno::EDEADLK)
    );
    fixture.f.release_owner(B, false);
    assert_eq!(first.join().unwrap(), Ok(()));
}

#[test]
fn a_cycle_that_a_later_reader_closes_is_refused_to_the_waiting_request() {
    let fixture = Arc::new(Fixture::default());
    fixture.f.set(&posix(A, Read, 0, 0), None).unwrap();
    fixture.g.set(&posix(C, Write, 0, 0), None).unwrap();
    let for_g = fixture.in_g(posix(B, Write, 0, 0));
    let for_f = fixture.in_f(posix(C, Write, 0, 0));
    // Another thread of B reads: now C waits for B, which waits for C.
    fixture.f.set(&posix(B, Read, 0, 0), None).unwrap();
    assert_eq!(for_f.join().unwrap(), Err(Errno::EDEADLK));
    fixture.g.release_owner(C, false);
    assert_eq!(for_g.join().unwrap(), Ok(()));
    assert!(fixture.graph.is_empty());
}

/// Regression: a user who read-locked a file through 100,000 open files and waited for it in 4,000
/// threads made the volume hold an edge for each pair: 3 GB.
#[test]
fn what_a_waiting_request_takes_does_not_grow_with_the_number_of_holders() {
    let fixture = Arc::new(Fixture::default());
    for owner in 100..1100 {
        fixture.f.set(&posix(owner, Read, 0, 9), None).unwrap();
        fixture.g.set(&ofd(owner, Read, 0, 9), None).unwrap();
    }
    let waiting = [
        fixture.in_f(posix(A, Write, 0, 9)),
        fixture.in_f(posix(A, Write, 5, 6)),
        fixture.in_g(posix(B, Write, 0, 9)),
    ];
    // What others do there leaves that as it is.
    fixture.f.set(&posix(C, Read, 3, 4), None).unwrap();
    assert_eq!(fixture.graph.edges(), 2 * 64);
    // A circle through one of these holders is found.
    fixture.g.set(&posix(A, Read, 50, 60), None).unwrap();
    let closing = fixture.g.set(&posix(100, Write, 50, 60), fixture.wait());
    assert_eq!(closing, Err(Errno::EDEADLK));
    fixture.f.release_owner(C, false);
    for owner in 100..1100 {
        fixture.f.release_owner(owner, false);
        fixture.g.release_owner(owner, false);
    }
    for waiting in waiting {
        assert_eq!(waiting.join().unwrap(), Ok(()));
    }
    assert_eq!(fixture.graph.edges(), 0);
}

/// Regression: where 100,000 had locks on a file and 4,000 waited for it, one more lock of another
/// byte kept a thread of the mount, and whom it serves, busy for many seconds.
#[test]
fn calls_that_wait_for_a_file_and_owners_of_its_locks_are_bounded_together() {
    let fixture = Arc::new(Fixture::default());
    for owner in 100..300 {
        fixture
            .f
            .set(&ofd(owner, Read, owner, owner), None)
            .unwrap();
    }
    let all = |owner| ofd(owner, Write, 0, LockRequest::EOF);
    let waiting: Vec<Waiting> = (0..20).map(|owner| fixture.in_f(all(owner))).collect();
    let (no, interrupt) = (Err(Errno::ENOLCK), Interrupt::new());
    interrupt.trigger();
    let wait = Wait {
        graph: &fixture.graph,
        interrupt: Some(&interrupt),
    };
    assert_eq!(fixture.f.set(&all(50), Some(wait)), no);
    assert_eq!(fixture.f.set(&ofd(50, Read, 6, 6), None), no);
    assert_eq!(fixture.f.set(&flock(50, Read), None), no);
    // Who has locks may have more of them, and fewer.
    assert_eq!(fixture.f.set(&ofd(100, Read, 6, 6), None), Ok(()));
    assert_eq!(fixture.f.set(&ofd(50, Unlock, 6, 6), None), Ok(()));
    fixture.f.release_owner(299, false);
    assert_eq!(fixture.f.set(&ofd(50, Read, 6, 6), None), Ok(()));
    fixture.f.release_owner(50, false);
    for owner in 100..299 {
        fixture.f.release_owner(owner, false);
    }
    for (owner, waiting) in (0..20).zip(waiting) {
        assert_eq!(waiting.join().unwrap(), Ok(()));
        fixture.f.release_owner(owner, false);
    }
}

#[test]
fn locks_of_descriptions_may_wait_in_cycles_as_in_linux() {
    for make in [flock as fn(u64, LockKind) -> LockRequest, |o, k| {
        ofd(o, k, 0, 0)
    }] {
        let fixture = Arc::new(Fixture::default());
        fixture.f.set(&make(A, Write), None).unwrap();
        fixture.g.set(&make(B, Write), None).unwrap();
        let a = fixture.in_g(make(A, Write));
        let b = fixture.in_f(make(B, Write));
        assert!(fixture.graph.is_empty());
        fixture.f.set(&make(A, Unlock), None).unwrap();
        assert_eq!(b.join().unwrap(), Ok(()));
        fixture.g.set(&make(B, Unlock), None).unwrap();
        assert_eq!(a.join().unwrap(), Ok(()));
    }
}

#[test]
fn many_waiting_threads_exclude_each_other_and_all_are_granted() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 300;
    let fixture = Arc::new(Fixture::default());
    let inside = Arc::new(AtomicU64::new(0));
    let threads = (0..THREADS).map(|owner| {
        let (fixture, inside) = (Arc::clone(&fixture), Arc::clone(&inside));
        thread::spawn(move || {
            for round in 0..ROUNDS {
                let flocked = round % 2 == 0;
                let (f, g) = (&fixture.f, posix(owner, Write, round % 3, 3));
                let request = if flocked { flock(owner, Write) } else { g };
                f.set(&request, fixture.wait()).unwrap();
                let lane = if flocked { 1 } else { 1 << 32 };
                let before = inside.fetch_add(lane, Ordering::SeqCst);
                assert_eq!(before / lane % (1 << 32), 0, "alone of its sort");
                inside.fetch_sub(lane, Ordering::SeqCst);
                f.set(
                    &LockRequest {
                        kind: Unlock,
                        ..request
                    },
                    None,
                )
                .unwrap();
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    assert!(fixture.f.is_empty() && fixture.graph.is_empty());
}

#[test]
fn an_interrupt_that_races_with_a_grant_either_wins_or_the_lock_is_held() {
    for _ in 0..500 {
        let fixture = Arc::new(Fixture::default());
        fixture.f.set(&flock(A, Write), None).unwrap();
        let interrupt = Interrupt::new();
        let waiting = fixture.start(|fixture| &fixture.f, flock(B, Write), Some(&interrupt));
        let trigger = thread::spawn(move || interrupt.trigger());
        fixture.f.release_owner(A, true);
        trigger.join().unwrap();
        let holder = |fixture: &Fixture| fixture.f.get(&flock(C, Read)).map(|lock| lock.owner);
        match waiting.join().unwrap() {
            Ok(()) => assert_eq!(holder(&fixture), Some(B)),
            Err(error) => assert_eq!((error, holder(&fixture)), (Errno::EINTR, None)),
        }
    }
}
