//! The collector: every interleaving (up to a bound on forced switches) of readers, of a thread
//! that unlinks and frees values, of threads that advance the epoch, and of threads that free
//! abandoned bags.
//!
//! Run with `cargo test -p hearth-sync --features loom --test loom_epoch`.
//!
//! The protocol is the crate's own (`epoch/collector.rs`, `local.rs`), compiled against loom.

#[path = "../src/epoch/bag.rs"]
mod bag;
// The model uses less than the crate does.
#[allow(dead_code)]
#[path = "../src/epoch/collector.rs"]
mod collector;
#[path = "../src/epoch/deferred.rs"]
mod deferred;
#[path = "../src/epoch/local.rs"]
mod local;
// The model uses less than the crate does.
#[allow(dead_code)]
#[path = "../src/primitive/thread_number.rs"]
mod thread_number;

use collector::Collector;
use deferred::Deferred;
use hearth_sync::primitive::atomic::{AtomicPtr, Ordering};
use hearth_sync::primitive::{self, Arc, thread};
use local::Local;
use loom::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize as PlainUsize, Ordering::SeqCst};
use std::sync::{Arc as PlainArc, LazyLock};
use std::time::{Duration, Instant};

static SWITCHES: LazyLock<Option<usize>> =
    LazyLock::new(|| std::env::var("LOOM_SWITCHES").ok()?.parse().ok());

fn check(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(SWITCHES.unwrap_or(switches));
    builder.max_branches = 20_000;
    builder.check(model);
}

/// A retired value: read under guards, written by the thread that frees it. The model checks that
/// the reads happen before the write.
struct Thing {
    uses: UnsafeCell<u64>,
    freed: PlainUsize,
}

// SAFETY: freed after every reader is gone, and by one; that is what the model checks.
unsafe impl Send for Thing {}
// SAFETY: as above.
unsafe impl Sync for Thing {}

impl Thing {
    fn read(&self) {
        // SAFETY: the model panics if somebody writes meanwhile.
        self.uses.with(|at| unsafe { assert_eq!(*at, 1) });
    }

    fn free(&self) {
        // SAFETY: the model panics if somebody else reads or writes meanwhile.
        self.uses.with_mut(|at| unsafe { *at += 1 });
        self.freed.fetch_add(1, SeqCst);
    }
}

/// A pointer through which readers find a value until it is unlinked. The memory stays, to be
/// inspected.
struct World {
    collector: Collector,
    place: AtomicPtr<Thing>,
    thing: PlainArc<Thing>,
}

fn now() -> Instant {
    static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);
    *NOW
}

impl World {
    fn new() -> Arc<World> {
        let thing = PlainArc::new(Thing {
            uses: UnsafeCell::new(1),
            freed: PlainUsize::new(0),
        });
        Arc::new(World {
            collector: Collector::new(),
            place: AtomicPtr::new(PlainArc::as_ptr(&thing).cast_mut()),
            thing,
        })
    }

    /// Acts as one guard.
    fn read(&self, me: &Local) {
        self.collector.pin(me);
        self.look();
        me.unpin();
    }

    fn look(&self) {
        // Relaxed: only the collector keeps it alive. It was complete before the threads began.
        let found = self.place.load(Ordering::Relaxed);
        // SAFETY: `thing` keeps the memory.
        if let Some(thing) = unsafe { found.as_ref() } {
            thing.read();
        }
    }

    /// Unlinks the value and seals a bag with it.
    fn retire(&self, me: &Local) {
        // Relaxed: the fence in `seal` orders it.
        self.place.store(ptr::null_mut(), Ordering::Relaxed);
        let thing = PlainArc::as_ptr(&self.thing) as usize;
        // SAFETY: `thing` outlives the model's run; freed by one, which the model checks.
        let free = unsafe { Deferred::new(move || (*(thing as *const Thing)).free()) };
        self.collector.seal(me, vec![free], now());
    }

    fn free_expired(&self, me: &Local) {
        let deferred = self.collector.take_expired(me);
        deferred.into_iter().flatten().for_each(Deferred::run);
    }

    /// Retires the value, advances the epoch as often as its bag needs, and frees it if it has
    /// expired.
    fn retire_and_free(&self, me: &Local) {
        self.retire(me);
        for _ in 0..2 {
            self.collector.advance();
            self.free_expired(me);
        }
    }

    fn free_abandoned(&self, patience: Duration) {
        let deferred = self.collector.take_abandoned(now(), patience);
        deferred.into_iter().flatten().for_each(Deferred::run);
    }

    /// At the end it is freed, exactly once.
    fn end(&self) {
        for _ in 0..2 {
            self.collector.advance();
        }
        self.free_abandoned(Duration::ZERO);
        assert!(!self.collector.has_waiting_bags());
        assert_eq!(self.thing.freed.load(SeqCst), 1);
    }
}

/// Guards before, after and across the unlinking: one of them follows another in the same thread.
#[test]
fn a_retired_value_outlives_every_guard_that_found_it() {
    check(4, || {
        let world = World::new();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let me = world.collector.join();
                world.read(me);
                world.read(me);
                me.release();
            })
        };
        let me = world.collector.join();
        world.retire_and_free(me);
        reader.join().expect("the model fails at a panic");
        world.end();
    });
}

/// A guard is repinned instead of dropped.
#[test]
fn a_repinned_guard_protects_what_it_finds_from_then_on() {
    check(4, || {
        let world = World::new();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let me = world.collector.join();
                world.collector.pin(me);
                world.look();
                world.collector.pin(me);
                world.look();
                me.unpin();
            })
        };
        let me = world.collector.join();
        world.retire_and_free(me);
        reader.join().expect("the model fails at a panic");
        world.end();
    });
}

/// Three threads take a number, write where only its owner writes, and give it back. The model
/// checks that the next owner comes after all that the last one wrote.
#[test]
fn the_next_owner_of_a_number_has_seen_what_the_last_one_did() {
    check(4, || {
        let world = Arc::new((
            thread_number::Numbers::new(),
            std::array::from_fn::<_, 3, _>(|_| Part(UnsafeCell::new(0))),
        ));
        let one = |world: &(thread_number::Numbers, [Part; 3])| {
            let number = world.0.take().expect("there are more numbers than threads");
            // SAFETY: the model panics if another owner is not ordered before or after this.
            world.1[number].0.with_mut(|at| unsafe { *at += 1 });
            world.0.give(number);
        };
        let others = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || one(&world))
        });
        one(&world);
        for thread in others {
            thread.join().expect("the model fails at a panic");
        }
        // SAFETY: as above.
        let written = |part: &Part| part.0.with(|at| unsafe { *at });
        assert_eq!(world.1.iter().map(written).sum::<u64>(), 3);
    });
}

/// What the owner of a number writes.
struct Part(UnsafeCell<u64>);

// SAFETY: one owner at a time; that is what the model checks.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

/// The epoch is advanced by another thread than the one that frees.
#[test]
fn freeing_is_ordered_after_guards_that_other_threads_waited_for() {
    check(3, || {
        let world = World::new();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.read(world.collector.join()))
        };
        let advances = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.collector.advance();
                world.collector.advance();
            })
        };
        let me = world.collector.join();
        world.retire(me);
        world.collector.advance();
        world.free_expired(me);
        for thread in [reader, advances] {
            thread.join().expect("the model fails at a panic");
        }
        world.free_expired(me);
        world.end();
    });
}

/// The thread that retired it, and two others that consider it gone.
#[test]
fn a_bag_is_freed_exactly_once() {
    check(3, || {
        let world = World::new();
        let me = world.collector.join();
        world.retire(me);
        let others = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.collector.advance();
                world.free_abandoned(Duration::ZERO);
            })
        });
        world.free_expired(me);
        for thread in others {
            thread.join().expect("the model fails at a panic");
        }
        world.end();
    });
}

/// A thread exits, another one starts and takes over its record; a third one looks for abandoned
/// bags.
#[test]
fn bags_of_an_exited_thread_are_freed_by_the_next_owner_or_by_others() {
    check(3, || {
        let world = World::new();
        let ends = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let me = world.collector.join();
                world.read(me);
                world.retire(me);
                me.release();
            })
        };
        let begins = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let me = world.collector.join();
                world.read(me);
                world.collector.advance();
                world.free_expired(me);
                me.release();
            })
        };
        world.collector.advance();
        world.free_abandoned(Duration::from_secs(1));
        for thread in [ends, begins] {
            thread.join().expect("the model fails at a panic");
        }
        world.end();
    });
}

/// The hint says that a bag has expired; when the lock is taken another one is the oldest.
#[test]
fn a_bag_behind_an_expired_one_still_waits_for_its_own_epochs() {
    check(4, || {
        let world = World::new();
        let me = world.collector.join();
        world.collector.seal(me, Vec::new(), now());
        for _ in 0..2 {
            world.collector.advance();
        }
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.read(world.collector.join());
                world.free_abandoned(Duration::ZERO);
            })
        };
        world.retire(me);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.free_abandoned(Duration::ZERO))
        };
        world.free_expired(me);
        for thread in [reader, other] {
            thread.join().expect("the model fails at a panic");
        }
        world.end();
    });
}

/// One thread stops between its look at the records and the end of the epoch.
#[test]
fn the_epoch_never_goes_backwards() {
    check(4, || {
        let world = World::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.collector.advance())
        };
        world.collector.advance();
        world.collector.advance();
        let seen = [(); 2].map(|()| world.collector.epoch());
        assert!(seen.is_sorted(), "{seen:?}");
        other.join().expect("the model fails at a panic");
    });
}

/// One thread exits; the next one has its record and is pinned again when others look.
#[test]
fn reads_of_an_exited_thread_happen_before_the_free() {
    check(3, || {
        let world = World::new();
        let readers = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let me = world.collector.join();
                world.read(me);
                me.release();
            })
        });
        let me = world.collector.join();
        world.retire_and_free(me);
        for reader in readers {
            reader.join().expect("the model fails at a panic");
        }
        world.end();
    });
}
