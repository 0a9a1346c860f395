//! Every interleaving (up to a bound on forced switches) of the hand-written protocols.
//!
//! Run with `cargo test -p hearth-sync --features loom --test loom`.
//!
//! The epoch underneath is the crate's stand-in, which drops a retired value at the first moment
//! that the contract of `hearth_sync::epoch` allows and adds no ordering of its own: these tests
//! prove the protocols above the epoch; `loom_epoch.rs` is about the epoch.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool as PlainBool, AtomicUsize as PlainUsize, Ordering::SeqCst};
use std::sync::{Arc as PlainArc, LazyLock};

use hearth_sync::epoch;
use hearth_sync::lock_class;
use hearth_sync::object::{ObjRef, Object, PerCpuRwLock, RefSlot, Table};
use hearth_sync::percpu::PerCpuCounters;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, LastCore, Mutex, WordLock, thread};
use hearth_sync::profile::{Counts, Key, Recorder, Side};
use hearth_sync::seq::{SeqCount, SeqLock};
use loom::cell::UnsafeCell;

#[path = "loom/rcu.rs"]
mod rcu;

lock_class! {
    Counted = "counted", 1;
    Guarded = "guarded", 2;
}

/// Runs `test` in every interleaving with at most `switches` forced switches.
fn check(switches: usize, test: impl Fn() + Sync + Send + 'static) {
    static SWITCHES: LazyLock<Option<usize>> =
        LazyLock::new(|| std::env::var("LOOM_SWITCHES").ok()?.parse().ok());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(SWITCHES.unwrap_or(switches));
    builder.max_branches = 20_000;
    let runs = PlainArc::new(PlainUsize::new(0));
    let counter = PlainArc::clone(&runs);
    builder.check(move || {
        counter.fetch_add(1, SeqCst);
        test();
    });
    println!("{} runs", runs.load(SeqCst));
}

/// A value that records its end, invisible to the model.
struct Mortal {
    ended: PlainArc<PlainBool>,
    drops: PlainArc<PlainUsize>,
    /// Read by holders, written by the evictor: the model checks that the reads happen before the
    /// write.
    uses: UnsafeCell<u64>,
}

// SAFETY: `uses` is written after every holder is gone; that is what the model checks.
unsafe impl Sync for Mortal {}

impl Mortal {
    fn new() -> Mortal {
        Mortal {
            ended: PlainArc::default(),
            drops: PlainArc::default(),
            uses: UnsafeCell::new(0),
        }
    }

    fn twin(&self) -> Mortal {
        Mortal {
            drops: PlainArc::clone(&self.drops),
            ended: PlainArc::default(),
            uses: UnsafeCell::new(0),
        }
    }

    fn end(&self) {
        // SAFETY: see the field.
        self.uses.with_mut(|uses| unsafe { *uses += 1 });
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        assert!(!self.ended.swap(true, SeqCst), "dropped twice");
        self.drops.fetch_add(1, SeqCst);
    }
}

/// Panics if the object was evicted although it should live.
///
/// The memory may be freed by then, so the witness is taken while the object surely lives.
struct Witness(PlainArc<PlainBool>);

impl Witness {
    fn of(object: &Object<Mortal>) -> Witness {
        Witness(PlainArc::clone(&object.ended))
    }

    /// Reads the object that it is a witness of.
    fn lives(&self, object: &Object<Mortal>) {
        assert!(!self.0.load(SeqCst), "the object ended under a reference");
        // SAFETY: see the field.
        object.uses.with(|uses| assert_eq!(unsafe { *uses }, 0));
    }
}

fn counted(drops: &PlainArc<PlainUsize>) -> usize {
    drops.load(SeqCst)
}

#[test]
fn a_sequence_count_never_shows_half_a_write() {
    check(4, || {
        let shared = Arc::new((
            SeqCount::<Counted>::new(),
            AtomicU64::new(0),
            AtomicU64::new(0),
        ));
        let writer = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            for value in 1..=2 {
                let _write = writer.0.write();
                writer.1.store(value, Relaxed);
                writer.2.store(value, Relaxed);
            }
        });
        let (a, b) = shared
            .0
            .read(|| (shared.1.load(Relaxed), shared.2.load(Relaxed)));
        assert_eq!(a, b);
        writer.join().unwrap();
    });
}

#[test]
fn a_sequence_lock_excludes_two_writers() {
    check(5, || {
        let shared = Arc::new((
            SeqLock::<Counted>::new(),
            AtomicU64::new(0),
            AtomicU64::new(0),
            LastCore::new(),
        ));
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let _write = shared.0.write(&shared.3);
                    shared.1.store(shared.1.load(Relaxed) + 1, Relaxed);
                    shared.2.store(shared.2.load(Relaxed) + 1, Relaxed);
                })
            })
            .collect();
        let (a, b) = shared
            .0
            .read(|| (shared.1.load(Relaxed), shared.2.load(Relaxed)));
        assert_eq!(a, b);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        assert_eq!(shared.1.load(Relaxed), 2);
    });
}

#[test]
fn percpu_counters_lose_nothing_during_inflation() {
    check(3, || {
        let counters = Arc::new(PerCpuCounters::<2>::new());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let counters = Arc::clone(&counters);
                thread::spawn(move || {
                    counters.add(0, 1);
                    counters.raise(1, 7);
                    counters.add(0, 1);
                })
            })
            .collect();
        counters.add(0, 1);
        let sum = counters.sum(0);
        assert!((1..=5).contains(&sum), "{sum}");
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!((counters.sum(0), counters.max(1)), (5, 7));
    });
}

/// A value whose contents the model watches: reading it before it is published is a race.
struct Published(UnsafeCell<u64>);

// SAFETY: the contents are written before the value is shared and only read after.
unsafe impl Sync for Published {}

impl Published {
    fn new(value: u64) -> Box<Published> {
        let published = Box::new(Published(UnsafeCell::new(0)));
        // SAFETY: nobody else has it yet.
        published.0.with_mut(|inside| unsafe { *inside = value });
        published
    }

    fn read(&self) -> u64 {
        // SAFETY: nobody writes it any more; the model checks that.
        self.0.with(|inside| unsafe { *inside })
    }
}

#[test]
fn an_object_is_never_evicted_under_a_reference() {
    check(5, || {
        let table = Arc::new(Table::new(0));
        let mortal = Mortal::new();
        let drops = PlainArc::clone(&mortal.drops);
        let number = table.insert(|_, _| mortal).number();
        let getter = Arc::clone(&table);
        let getter = thread::spawn(move || {
            let g = epoch::pin();
            let Some(held) = getter.hold(number, &g) else {
                return;
            };
            let witness = Witness::of(&held);
            drop(g);
            thread::yield_now();
            witness.lives(&held);
            end(&getter, held);
        });
        end_by_number(&table, number);
        getter.join().unwrap();
        assert_eq!(
            (counted(&drops), table.len()),
            (1, 0),
            "it ended once, and did end"
        );
    });
}

#[test]
fn two_evictors_and_a_getter_evict_an_object_exactly_once() {
    check(3, || {
        let table = Arc::new(Table::new(0));
        let mortal = Mortal::new();
        let drops = PlainArc::clone(&mortal.drops);
        let number = table.insert(|_, _| mortal).number();
        let evictor = Arc::clone(&table);
        let evictor = thread::spawn(move || end_by_number(&evictor, number));
        let getter = Arc::clone(&table);
        let getter = thread::spawn(move || {
            let g = epoch::pin();
            let Some(held) = getter.hold(number, &g) else {
                return false;
            };
            let witness = Witness::of(&held);
            drop(g);
            witness.lives(&held);
            end(&getter, held)
        });
        let ended = [
            end_by_number(&table, number),
            evictor.join().unwrap(),
            getter.join().unwrap(),
        ];
        assert_eq!(ended.iter().filter(|&&ended| ended).count(), 1);
        assert_eq!((counted(&drops), table.len()), (1, 0));
    });
}

/// The evictor may sum the cloner's counter before the clone, and the other counter after the
/// original was released there: a clone by plain addition would be missed.
#[test]
fn an_evictor_does_not_miss_a_clone_whose_original_is_dropped_elsewhere() {
    check(4, || {
        let table = Arc::new(Table::new(0));
        let held = table.insert(|_, _| Mortal::new());
        let number = held.number();
        let passed = Arc::new(Mutex::new(Some(held)));
        let cloned = Arc::new(Mutex::new(None));
        let cloner = (Arc::clone(&passed), Arc::clone(&cloned));
        let cloner = thread::spawn(move || {
            let passed = cloner.0.lock();
            if let Some(held) = &*passed {
                *cloner.1.lock() = Some(held.clone());
            }
        });
        let dropper = (Arc::clone(&passed), Arc::clone(&cloned));
        let dropper = thread::spawn(move || {
            let mut passed = dropper.0.lock();
            if dropper.1.lock().is_some() {
                drop(passed.take());
            }
        });
        let ended = end_by_number(&table, number);
        cloner.join().unwrap();
        dropper.join().unwrap();
        let kept = [passed.lock().take(), cloned.lock().take()];
        assert!(!ended, "a reference was there all the time");
        for held in kept.into_iter().flatten() {
            Witness::of(&held).lives(&held);
        }
    });
}

/// The getter picks its counter, then the counters are inflated, then the evictor sums the getter's
/// old counter before, and its new counter after, the getter has added and undone: an undo on the
/// new counter would hide the reference that is there all the time.
#[test]
fn a_failed_get_is_undone_on_the_counter_it_was_added_to() {
    check(4, || {
        let table = Arc::new(Table::new(0));
        let held = table.insert(|_, _| Mortal::new());
        let number = held.number();
        let evictor = Arc::clone(&table);
        let evictor = thread::spawn(move || end_by_number(&evictor, number));
        let splitter = held.clone();
        let splitter = thread::spawn(move || drop(splitter));
        let g = epoch::pin();
        let object = table.get(number, &g).unwrap();
        Witness::of(object).lives(&object.hold().expect("a reference is there all the time"));
        splitter.join().unwrap();
        assert!(
            !evictor.join().unwrap(),
            "a reference is there all the time"
        );
    });
}

#[test]
fn a_handle_turned_into_a_count_is_always_seen() {
    check(5, || {
        let table = Arc::new(Table::new(0));
        let held = table.insert(|_, _| Mortal::new());
        let number = held.number();
        let leaver = thread::spawn(move || held.into_raw_count());
        assert!(
            !end_by_number(&table, number),
            "counted in one slot or the other"
        );
        leaver.join().unwrap();
        assert!(!end_by_number(&table, number));
    });
}

/// The thread that removes the last name says so and evicts, with no fence of its own in between.
/// The one that gives the last reference back, a handle or a count, looks for that and evicts as
/// well.
fn the_last_name_and_the_last_reference(is_count: bool) {
    check(5, move || {
        let table = Arc::new(Table::new(0));
        let mortal = Mortal::new();
        let drops = PlainArc::clone(&mortal.drops);
        let held = table.insert(|_, _| mortal);
        let number = held.number();
        let handle = match is_count {
            true => {
                held.into_raw_count();
                None
            }
            false => Some(held),
        };
        let is_unnamed = Arc::new(AtomicBool::new(false));
        let (releaser, seen) = (Arc::clone(&table), Arc::clone(&is_unnamed));
        let releaser = thread::spawn(move || {
            let g = epoch::pin();
            let object = match handle {
                Some(held) => {
                    let object = held.pinned(&g);
                    held.release_and_fence();
                    object
                }
                None => {
                    let object = releaser.get(number, &g).expect("it is counted");
                    object.put_many_and_fence(1);
                    object
                }
            };
            seen.load(Relaxed) && end_object(&releaser, object, &g)
        });
        is_unnamed.store(true, Relaxed);
        let ended = [
            end_by_number(&table, number),
            releaser.join().expect("it releases"),
        ];
        assert_eq!(ended.iter().filter(|&&ended| ended).count(), 1);
        assert_eq!((counted(&drops), table.len()), (1, 0));
    });
}

#[test]
fn the_last_name_and_the_last_reference_end_an_object_once() {
    the_last_name_and_the_last_reference(false);
}

/// Of a kernel.
#[test]
fn the_last_name_and_the_last_count_end_an_object_once() {
    the_last_name_and_the_last_reference(true);
}

#[test]
fn an_object_is_never_evicted_under_a_bare_count() {
    check(5, || {
        let table = Arc::new(Table::new(0));
        let held = table.insert(|_, _| Mortal::new());
        let (number, witness) = (held.number(), Witness::of(&held));
        held.into_raw_count();
        let counter = Arc::clone(&table);
        let counter = thread::spawn(move || {
            let g = epoch::pin();
            let object = counter.get(number, &g).expect("it is counted");
            // Inflates first: the evictor sees the inflation, and must see the use by the count
            // alone.
            object.percpu().add(2, 1);
            witness.lives(object);
            object.put_many(1);
        });
        let ended = end_by_number(&table, number);
        counter.join().unwrap();
        assert_eq!(end_by_number(&table, number), !ended);
    });
}

#[test]
fn a_ref_slot_releases_its_reference_once() {
    check(5, || {
        let table = Arc::new(Table::new(0));
        let mortal = Mortal::new();
        let drops = PlainArc::clone(&mortal.drops);
        let slot = Arc::new(RefSlot::new(table.insert(|_, _| mortal)));
        let taker = |table: &Table<Mortal>, slot: &RefSlot<Mortal>| match slot.take() {
            Some(held) => end(table, held),
            None => false,
        };
        let other = (Arc::clone(&table), Arc::clone(&slot));
        let other = thread::spawn(move || taker(&other.0, &other.1));
        let g = epoch::pin();
        if let Some(object) = slot.get(&g) {
            let witness = Witness::of(object);
            thread::yield_now();
            assert!(!witness.0.load(SeqCst), "the object ended under a guard");
        }
        drop(g);
        let ended = [taker(&table, &slot), other.join().unwrap()];
        assert_eq!(ended.iter().filter(|&&ended| ended).count(), 1);
        assert_eq!(counted(&drops), 1);
    });
}

#[test]
fn a_ref_slot_publishes_complete_objects() {
    check(5, || {
        let shared = Arc::new((Table::new(0), RefSlot::empty()));
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || {
            let held = other.0.insert(|_, _| Published::new(7));
            assert!(other.1.replace(Some(held)).is_none());
        });
        let g = epoch::pin();
        if let Some(object) = shared.1.get(&g) {
            assert_eq!(object.read(), 7);
        }
        other.join().unwrap();
        assert!(shared.1.take().is_some());
    });
}

#[test]
fn a_restore_that_races_an_eviction_yields_one_object() {
    check(5, || {
        let table = Arc::new(Table::new(4));
        let mortal = Mortal::new();
        let (drops, twin) = (PlainArc::clone(&mortal.drops), mortal.twin());
        table.restore(1, 1, |_, _, _| mortal).unwrap();
        let evicter = Arc::clone(&table);
        let evicter = thread::spawn(move || {
            let g = epoch::pin();
            evicter
                .get(1, &g)
                .is_some_and(|object| evicter.evict(object, &g))
        });
        let (held, _) = table.restore(1, 1, move |_, _, _| twin).unwrap();
        let witness = Witness::of(&held);
        let evicted = evicter.join().unwrap();
        witness.lives(&held);
        // The value that was not used is dropped like the one that was evicted.
        assert_eq!((counted(&drops), table.len()), (1, 1), "evicted: {evicted}");
    });
}

#[test]
fn two_restores_make_one_object() {
    check(5, || {
        let table = Arc::new(Table::new(4));
        let other = Arc::clone(&table);
        let other = thread::spawn(move || other.restore(1, 1, |_, _, _| Mortal::new()).unwrap());
        let (held, is_new) = table.restore(1, 1, |_, _, _| Mortal::new()).unwrap();
        let (other, other_is_new) = other.join().unwrap();
        assert!(std::ptr::eq(&*held, &*other));
        assert!(is_new != other_is_new, "one of them made it");
        assert_eq!((held.references(), table.len()), (2, 1));
    });
}

#[test]
fn concurrent_inserts_that_grow_the_table_are_both_kept() {
    // Different heights, different branches, and one branch that both must create; then the same
    // among the numbers from 8 on, whose tree is empty at first.
    for (a, b) in [(2, 4), (4, 7), (4, 5), (8, 16), (8, 12), (8, 9)] {
        check(4, move || {
            let table = Arc::new(Table::new(32));
            let other = Arc::clone(&table);
            let make = |number, _| Published::new(number);
            let other =
                thread::spawn(move || other.insert_at(a, 1, make).unwrap().into_raw_count());
            table.insert_at(b, 1, make).unwrap().into_raw_count();
            let g = epoch::pin();
            if let Some(object) = table.get(a, &g) {
                assert_eq!(object.read(), a);
            }
            other.join().unwrap();
            for number in [a, b] {
                let object = table.get(number, &g).expect("inserted");
                assert_eq!(object.read(), number);
                object.put_many(1);
            }
        });
    }
}

#[test]
fn a_freed_number_is_allocated_once() {
    check(3, || {
        let table = Arc::new(Table::<u64>::new(0));
        // More than a core keeps: a block of them goes to the pool that all cores take from.
        let taken: Vec<_> = (0..4).map(|_| table.reserve()).collect();
        for (number, generation) in taken {
            table.release(number, generation);
        }
        let other = Arc::clone(&table);
        let other = thread::spawn(move || [(); 3].map(|()| other.reserve()));
        let mine = [(); 3].map(|()| table.reserve());
        let given = [mine, other.join().unwrap()].concat();
        let numbers: BTreeSet<u64> = given.iter().map(|&(number, _)| number).collect();
        assert_eq!(numbers.len(), given.len(), "{given:?}");
        for (number, generation) in given {
            let came_back = number < 4;
            assert_eq!(generation, if came_back { 2 } else { 1 }, "{number}");
        }
    });
}

#[test]
fn no_reader_holds_a_write_locked_percpu_rwlock() {
    // With one reader every interleaving of four switches, with two readers of two: more take
    // minutes.
    for (threads, switches) in [(1, 4), (2, 2)] {
        check(switches, move || write_beside_readers(threads));
    }
}

fn write_beside_readers(threads: usize) {
    let shared = Arc::new((Table::new(0), UnsafeCell::new(0_u64)));
    let held = shared.0.insert(|_, _| PerCpuRwLock::<Guarded>::new());
    let readers: Vec<_> = (0..threads)
        .map(|_| {
            let (shared, held) = (Arc::clone(&shared), held.clone());
            thread::spawn(move || {
                let _reading = held.read(held.percpu());
                // SAFETY: the lock keeps the writer out; the model checks that.
                shared.1.with(|inside| unsafe { *inside })
            })
        })
        .collect();
    {
        let _writing = held.write(held.percpu());
        // SAFETY: the lock keeps everybody out; the model checks that.
        shared.1.with_mut(|inside| unsafe { *inside += 1 });
    }
    for readers in readers {
        assert!(readers.join().expect("it ends") <= 1);
    }
}

#[test]
fn two_writers_of_a_percpu_rwlock_exclude_each_other() {
    check(5, || {
        let shared = Arc::new((Table::new(0), UnsafeCell::new(0_u64)));
        let held = shared.0.insert(|_, _| PerCpuRwLock::<Guarded>::new());
        let add = |shared: &(Table<PerCpuRwLock<Guarded>>, UnsafeCell<u64>),
                   held: &ObjRef<PerCpuRwLock<Guarded>>| {
            let _writing = held.write(held.percpu());
            // SAFETY: the lock keeps everybody out; the model checks that.
            shared.1.with_mut(|inside| unsafe { *inside += 1 });
        };
        let other = (Arc::clone(&shared), held.clone());
        let other = thread::spawn(move || add(&other.0, &other.1));
        add(&shared, &held);
        other.join().unwrap();
        let _reading = held.read(held.percpu());
        // SAFETY: as above.
        assert_eq!(shared.1.with(|inside| unsafe { *inside }), 2);
    });
}

/// The holder of a timed hold is told so when it unlocks, and no other thread is.
#[test]
fn a_word_lock_has_one_holder_and_timed_holds_end_once() {
    check(3, || {
        let shared = Arc::new((WordLock::new(), UnsafeCell::new(0_u64), AtomicU64::new(0)));
        let hold = |shared: &(WordLock, UnsafeCell<u64>, AtomicU64), timed: bool| {
            shared.0.lock();
            if timed {
                shared.0.set_timed();
            }
            // SAFETY: the lock keeps the others out; the model checks that.
            shared.1.with_mut(|value| unsafe { *value += 1 });
            let mut ended = false;
            shared.0.unlock(|| ended = true);
            assert_eq!(ended, timed);
        };
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || [false, true].map(|timed| hold(&other, timed)));
        hold(&shared, true);
        other.join().unwrap();
        assert!(shared.0.try_lock() && !shared.0.try_lock());
        // SAFETY: as above.
        assert_eq!(shared.1.with(|value| unsafe { *value }), 3);
    });
}

#[test]
fn a_snapshot_never_mixes_sessions() {
    check(3, || {
        let recorder = Arc::new(Recorder::new());
        let owner = Arc::clone(&recorder);
        let owner = thread::spawn(move || {
            let (class, side) = ("class", Side::Write);
            let site = std::panic::Location::caller();
            let key = Key { class, side, site };
            // Session 1 counts one, session 2 counts two.
            for session in [1, 2] {
                owner.begin(session);
                let place = owner.site(&key, 1).expect("a cell");
                let counts = Counts {
                    free: session.into(),
                    ..Counts::default()
                };
                owner.add(place, &counts);
            }
        });
        for session in [1, 2] {
            if let Some((cells, lost)) = recorder.copy(session) {
                let free: Vec<u64> = cells.iter().map(|(_, counts)| counts.free).collect();
                assert!(free.is_empty() || free == [u64::from(session)], "{free:?}");
                assert_eq!(lost, 0);
            }
        }
        owner.join().unwrap();
        assert!(recorder.copy(1).is_none());
        assert_eq!(recorder.copy(2).expect("the last session").0.len(), 1);
    });
}

/// Releases a reference and tries to evict the object.
fn end(table: &Table<Mortal>, held: ObjRef<Mortal>) -> bool {
    let g = epoch::pin();
    let object = held.pinned(&g);
    drop(held);
    end_object(table, object, &g)
}

/// Tries to evict the object with `number`.
fn end_by_number(table: &Table<Mortal>, number: u64) -> bool {
    let g = epoch::pin();
    table
        .get(number, &g)
        .is_some_and(|object| end_object(table, object, &g))
}

fn end_object(table: &Table<Mortal>, object: &Object<Mortal>, g: &epoch::Guard) -> bool {
    let ended = table.retire(object, g);
    if ended {
        object.end();
    }
    ended
}
