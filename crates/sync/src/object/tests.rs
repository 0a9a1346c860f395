use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::epoch;
use crate::lock_class;
use crate::percpu::PerCpuCounters;
use crate::primitive::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use crate::primitive::{Arc, force_core, rounds};
use hearth_testing::threads::SetOnDrop;

struct Tracked {
    number: u64,
    alive: Arc<AtomicUsize>,
}

impl Tracked {
    fn new(number: u64, alive: &Arc<AtomicUsize>) -> Tracked {
        alive.fetch_add(1, Ordering::SeqCst);
        Tracked {
            number,
            alive: Arc::clone(alive),
        }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.number = u64::MAX;
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

fn wait_until_alive(alive: &AtomicUsize, wanted: usize) {
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while alive.load(Ordering::SeqCst) != wanted {
        epoch::pin().flush();
        std::thread::yield_now();
        assert!(
            std::time::Instant::now() < limit,
            "objects are never dropped"
        );
    }
}

lock_class!(Guarded = "guarded", 2);

#[test]
fn an_object_header_is_small_and_shares_no_cache_line() {
    assert!(Object::<()>::PERCPU_AT + size_of::<PerCpuCounters<SLOTS>>() <= 128);
    assert_eq!(align_of::<Object<u8>>(), 64);
    assert_eq!(Object::<[u64; 5]>::PERCPU_AT, 64);
    assert_eq!(size_of::<ObjRef<u8>>(), 8);
    assert_eq!(size_of::<RefSlot<u8>>(), 8);
}

#[test]
fn an_object_with_a_reference_is_not_retired() {
    let (table, alive) = (Table::new(2), Arc::default());
    let held = table.insert(|number, _| Tracked::new(number, &alive));
    let g = epoch::pin();
    let second = table.hold(held.number(), &g).expect("it lives");
    assert_eq!(held.references(), 2);
    drop(held);
    assert!(!table.retire(&second, &g));
    let object = second.pinned(&g);
    drop(second);
    assert!(table.retire(object, &g));
    assert!(!table.retire(object, &g), "only one caller ends it");
    assert!(object.hold().is_none() && object.is_dead());
    assert_eq!((object.number, table.len()), (object.number(), 0));
    drop(g);
    wait_until_alive(&alive, 0);
}

#[test]
fn references_released_on_another_core_are_counted() {
    let (table, alive) = (Table::new(1), Arc::default());
    let g = epoch::pin();
    force_core(0);
    let held = table.insert(|number, _| Tracked::new(number, &alive));
    let clones: Vec<_> = (0..4)
        .map(|core| {
            force_core(core);
            held.clone()
        })
        .collect();
    force_core(3);
    let object = held.pinned(&g);
    drop(held);
    for clone in clones {
        assert!(!table.retire(object, &g));
        drop(clone);
    }
    assert!(table.retire(object, &g));
}

#[test]
fn a_number_comes_back_with_the_next_generation() {
    force_core(0);
    let table = Table::new(7);
    let g = epoch::pin();
    let first = table.insert(|number, generation| (number, generation));
    let (number, generation) = **first;
    assert!(number >= 7);
    let object = first.pinned(&g);
    drop(first);
    assert!(table.retire(object, &g));
    let others: Vec<_> = (0..BLOCK)
        .map(|_| table.insert(|number, generation| (number, generation)))
        .collect();
    let second = others.iter().find(|other| other.number() == number);
    let second = second.expect("it comes back before another block is begun");
    assert_eq!(***second, (number, generation + 1));
    assert_eq!(second.generation(), generation + 1);
}

#[test]
fn an_evicted_number_is_not_reused_and_can_be_restored() {
    let table = Table::new(1);
    let g = epoch::pin();
    let held = table.insert(|_, _| 'a');
    let (number, generation) = (held.number(), held.generation());
    let object = held.pinned(&g);
    drop(held);
    assert!(table.evict(object, &g));
    assert!(table.get(number, &g).is_none());
    let others: Vec<_> = (0..3 * BLOCK).map(|_| table.insert(|_, _| 'x')).collect();
    assert!(others.iter().all(|other| other.number() != number));
    let (returned, is_new) = table
        .restore(number, generation, |_, _, percpu| {
            percpu.add(2, 7);
            'b'
        })
        .expect("nobody else has it");
    assert_eq!(
        (**returned, returned.generation(), is_new),
        ('b', generation, true)
    );
    assert_eq!(returned.percpu().sum(2), 7);
    let (again, is_new) = table
        .restore(number, generation, |_, _, _| 'c')
        .expect("the same object");
    assert_eq!(**again, 'b', "the later restore gets what the earlier made");
    assert!(!is_new);
    let other = table
        .restore(number, generation + 1, |_, _, _| 'd')
        .map(|(held, _)| **held);
    assert_eq!(
        other,
        Err(TableError::OtherGeneration {
            number,
            found: generation
        })
    );
    assert_eq!(table.len(), others.len() + 1);
}

#[test]
#[cfg_attr(miri, ignore = "leaks, as it means to")]
fn any_u64_can_be_a_fixed_number() {
    let table = Table::new(2);
    let g = epoch::pin();
    for number in [1, 1 << 20, 1 << 40, (1 << 61) - 1, 1 << 61] {
        let held = table
            .insert_at(number, 5, |number, _| number)
            .expect("it is free");
        assert_eq!(**table.get(number, &g).expect("inserted"), number);
        let taken = table.insert_at(number, 6, |_, _| 0).map(|held| **held);
        assert_eq!(taken, Err(TableError::Occupied { number }));
        held.into_raw_count();
    }
    let mut seen = Vec::new();
    table.scan(2, &g, |object| {
        seen.push(object.number());
        true
    });
    assert_eq!(seen, [1 << 20, 1 << 40, (1 << 61) - 1, 1 << 61]);
    assert_eq!(table.len(), 5);
}

#[test]
fn an_object_whose_making_panics_leaves_its_memory_free() {
    force_core(0);
    let (table, alive) = (Table::new(1), Arc::new(AtomicUsize::new(0)));
    let tried = [
        catch_unwind(AssertUnwindSafe(|| {
            table.insert(|_, _| -> Tracked { panic!("in the making") })
        })),
        catch_unwind(AssertUnwindSafe(|| {
            let make = |number, _| Tracked::new(number, &alive);
            let fail = |made: &Tracked| panic!("with {} made", made.number);
            table.insert_prepared(make, fail, &epoch::pin())
        })),
    ];
    assert!(tried.iter().all(Result::is_err));
    assert_eq!((alive.load(Ordering::SeqCst), table.len()), (0, 0));
    // The numbers of both are lost. What is stored there lies in the memory of its entry.
    for number in [1, 2] {
        let held = table.insert_at(number, 7, |number, _| Tracked::new(number, &alive));
        let held = held.expect("nothing is there");
        let entry = table.storage.entries.find(number).expect("it was reached");
        assert!(entry.holds_inline(std::ptr::NonNull::from(&*held)));
    }
    let held = table.insert(|number, _| Tracked::new(number, &alive));
    assert_eq!((held.number(), held.number), (3, 3));
}

/// The first of two objects of one number is stored inline, the second on the heap, and the third
/// inline again once nobody can see the first.
#[test]
fn an_object_is_stored_inline_unless_the_last_one_may_still_be_read() {
    let (table, alive) = (Table::new(1), Arc::default());
    let make = |generation| {
        let held = table.insert_at(9, generation, |number, _| Tracked::new(number, &alive));
        held.expect("the number is free").into_raw_count();
        let g = epoch::pin();
        let object = table.get(9, &g).expect("it was put there");
        assert_eq!(object.number, 9);
        std::ptr::from_ref(object).addr()
    };
    let end = || {
        let g = epoch::pin();
        let object = table.get(9, &g).expect("it lives");
        object.put_many(1);
        assert!(table.retire(object, &g));
    };
    let first = make(1);
    let reader = epoch::pin();
    end();
    assert_ne!(make(2), first, "the inline memory may still be read");
    drop(reader);
    end();
    wait_until_alive(&alive, 0);
    assert_eq!(make(3), first);
    end();
    drop(table);
    wait_until_alive(&alive, 0);
}

/// As the last test, of numbers that the table gives out.
#[test]
fn a_new_object_lies_elsewhere_while_the_last_one_of_its_number_may_be_read() {
    force_core(0);
    let (table, alive) = (Table::new(0), Arc::default());
    let insert = || table.insert(|number, _| Tracked::new(number, &alive));
    let end = |held: ObjRef<Tracked>| {
        let g = epoch::pin();
        let object = held.pinned(&g);
        drop(held);
        assert!(table.retire(object, &g));
    };
    let reader = epoch::pin();
    let made: Vec<_> = (0..BLOCK).map(|_| insert()).collect();
    made.into_iter().for_each(end);
    let again = insert();
    assert_eq!(
        (again.number(), again.generation(), again.number),
        (0, 2, 0)
    );
    let entry = table.storage.entries.find(0).expect("it was reached");
    let lies_inline = |held: &ObjRef<Tracked>| entry.holds_inline(std::ptr::NonNull::from(&**held));
    assert!(!lies_inline(&again), "the inline memory may still be read");
    end(again);
    drop(reader);
    drop(table);
    wait_until_alive(&alive, 0);
}

#[test]
#[cfg_attr(miri, ignore = "it has no kernel that maps pages")]
fn memory_of_new_objects_faults_once_per_page() {
    let faults = || {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the kernel fills the structure in.
        let usage = unsafe {
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
            usage.assume_init()
        };
        usage.ru_minflt
    };
    type Large = Object<[u8; 936]>;
    const _: () = assert!(
        4096 % size_of::<Large>() == 0,
        "every page begins with an object"
    );
    const PAGES: usize = BLOCK as usize * size_of::<Large>() / 4096;
    force_core(0);
    let table = Table::new(0);
    drop(table.insert(|_, _| [1_u8; 936]));
    let before = faults();
    for _ in 1..BLOCK {
        drop(table.insert(|_, _| [1_u8; 936]));
    }
    let faults = faults() - before;
    // A page that is read first faults a second time when it is written.
    assert!(faults < PAGES as i64 * 3 / 2, "{faults} for {PAGES} pages");
}

/// A table that is dropped while drops of its objects are pending keeps their memory.
#[test]
fn a_dropped_table_outlives_its_pending_drops() {
    for _ in 0..rounds(50) {
        let (table, alive) = (Table::new(1), Arc::new(AtomicUsize::new(0)));
        let reader = epoch::pin();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let g = epoch::pin();
                    for _ in 0..100 {
                        let held = table.insert(|number, _| Tracked::new(number, &alive));
                        let object = held.pinned(&g);
                        drop(held);
                        assert!(table.retire(object, &g));
                    }
                });
            }
        });
        let held = table.insert(|number, _| Tracked::new(number, &alive));
        let seen = held.pinned(&reader);
        drop(held);
        drop(table);
        assert_eq!((seen.number, seen.is_dead()), (seen.number(), true));
        drop(reader);
        wait_until_alive(&alive, 0);
    }
}

/// Panics when the thread that created it drops it. Other tests may free it too, and must not fail
/// by it.
struct Bomb {
    maker: std::thread::ThreadId,
    drops: Arc<AtomicUsize>,
    bangs: Arc<AtomicUsize>,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if std::thread::current().id() == self.maker {
            self.bangs.fetch_add(1, Ordering::SeqCst);
        }
        self.drops.fetch_add(1, Ordering::SeqCst);
        assert_ne!(std::thread::current().id(), self.maker, "bang");
    }
}

#[test]
#[cfg_attr(miri, ignore = "leaks, as it means to")]
fn a_panicking_drop_releases_the_entry_and_the_table() {
    let (table, bangs) = (Table::new(1), Arc::new(AtomicUsize::new(0)));
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut room = None;
    // Another test may have dropped the one before; then there was no panic.
    for generation in 1.. {
        let drops = Arc::new(AtomicUsize::new(0));
        let bomb = |_, _| Bomb {
            maker: std::thread::current().id(),
            drops: Arc::clone(&drops),
            bangs: Arc::clone(&bangs),
        };
        let held = table.insert_at(9, generation, bomb);
        let held = held.expect("the number is free");
        let g = epoch::pin();
        let object = held.pinned(&g);
        let at = std::ptr::from_ref(object).addr();
        assert_eq!(at, *room.get_or_insert(at), "the room was not released");
        if bangs.load(Ordering::SeqCst) > 0 {
            break;
        }
        drop(held);
        assert!(table.retire(object, &g));
        drop(g);
        while drops.load(Ordering::SeqCst) == 0 {
            let freed = catch_unwind(AssertUnwindSafe(|| epoch::pin().flush()));
            assert!(freed.is_ok() || bangs.load(Ordering::SeqCst) > 0);
            std::thread::yield_now();
            assert!(std::time::Instant::now() < limit, "it is never dropped");
        }
        while !table.storage.is_drained() {
            std::thread::yield_now();
            assert!(std::time::Instant::now() < limit, "its end is not counted");
        }
    }
    // The last value is leaked with the table, so it cannot panic.
    std::mem::forget(table);
}

#[test]
fn a_reserved_number_is_allocated_once() {
    force_core(0);
    let table = Table::new(1);
    let (number, generation) = table.reserve();
    let others: Vec<_> = (0..2 * BLOCK).map(|_| table.insert(|_, _| ())).collect();
    assert!(others.iter().all(|other| other.number() != number));
    table
        .insert_at(number, generation, |_, _| ())
        .expect("it is reserved for us");
    let (number, generation) = table.reserve();
    table.release(number, generation);
    assert!((0..BLOCK).any(|_| table.reserve() == (number, generation + 1)));
}

#[test]
fn bare_counts_keep_an_object_and_excess_puts_harm_no_handle() {
    let (table, alive) = (Table::new(1), Arc::default());
    let g = epoch::pin();
    let held = table.insert(|number, _| Tracked::new(number, &alive));
    let object = held.pinned(&g);
    for _ in 0..3 {
        held.clone().into_raw_count();
    }
    assert_eq!(object.references(), 4);
    drop(held);
    object.put_many(2);
    assert!(!table.retire(object, &g));
    let held = object.hold().expect("a count is left");
    object.put_many(100);
    assert!(!table.retire(object, &g), "a handle is left");
    drop(held);
    assert!(table.retire(object, &g));
}

#[test]
fn a_ref_slot_releases_its_reference_once() {
    let table = Table::new(1);
    let g = epoch::pin();
    let slot = RefSlot::new(table.insert(|_, _| 'a'));
    let object = slot.get(&g).expect("filled");
    assert!(!table.retire(object, &g));
    let old = slot
        .replace(Some(table.insert(|_, _| 'b')))
        .expect("filled");
    assert_eq!(
        (**old, slot.get(&g).map(|object| **object)),
        ('a', Some('b'))
    );
    assert!(slot.take().is_some() && slot.take().is_none() && slot.is_empty());
    drop(old);
    assert!(table.retire(object, &g));
    drop(RefSlot::new(table.insert(|_, _| 'c')));
    let mut ended = 0;
    table.scan(0, &g, |object| {
        ended += usize::from(table.retire(object, &g));
        true
    });
    assert_eq!(
        (ended, table.len()),
        (2, 0),
        "dropped slots and handles left no reference"
    );
}

#[test]
#[cfg_attr(miri, ignore = "leaks, as it means to")]
fn dropping_a_table_drops_only_objects_without_references() {
    let alive = Arc::default();
    let table = Table::new(1);
    for _ in 0..rounds(3_000) {
        table.insert(|number, _| Tracked::new(number, &alive));
    }
    let held = table.insert(|number, _| Tracked::new(number, &alive));
    drop(table);
    wait_until_alive(&alive, 1);
    assert_eq!(held.number, held.number());
}

#[test]
fn a_writer_waits_for_readers_and_excludes_new_ones() {
    let table = Table::new(1);
    let held = table.insert(|_, _| (PerCpuRwLock::<Guarded>::new(), AtomicI64::new(0)));
    let (rwlock, inside) = &**held;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&stop);
        for core in 0..3 {
            let (stop, held) = (&stop, &held);
            scope.spawn(move || {
                force_core(core);
                while !stop.load(Ordering::Relaxed) {
                    let _reading = rwlock.read(held.percpu());
                    inside.fetch_add(1, Ordering::Relaxed);
                    inside.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..rounds(2_000) {
            let _writing = rwlock.write(held.percpu());
            assert_eq!(inside.load(Ordering::Relaxed), 0);
            assert!(rwlock.try_read(held.percpu()).is_none());
            assert_eq!(inside.load(Ordering::Relaxed), 0);
        }
    });
    assert!(rwlock.try_read(held.percpu()).is_some());
    assert_eq!(held.percpu().sum(1), 0);
}

/// Threads take, clone and drop references to one object after the other while others evict
/// whatever they can. Every object must be intact while it is referenced, and all must be dropped
/// at the end.
#[test]
fn concurrent_holds_and_evictions_agree_on_every_object() {
    const SLOTS: u64 = 8;
    let (table, alive) = (Table::<Tracked>::new(SLOTS), Arc::default());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&stop);
        for core in 0..2 {
            let (table, stop) = (&table, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for number in 0..SLOTS {
                        force_core(core);
                        let g = epoch::pin();
                        let Some(held) = table.hold(number, &g) else {
                            continue;
                        };
                        drop(g);
                        let second = held.clone();
                        force_core(core + 2);
                        drop(held);
                        let node: &Tracked = &second;
                        assert_eq!(node.number, number);
                        drop(second);
                    }
                }
            });
        }
        let mut ended = 0_u64;
        for round in 0..rounds(100_000) {
            let number = round % SLOTS;
            let g = epoch::pin();
            if let Some(object) = table.get(number, &g) {
                ended += u64::from(table.evict(object, &g));
            }
            drop(table.restore(number, 1, |number, _, _| Tracked::new(number, &alive)));
        }
        assert!(ended > rounds(1_000), "{ended} of {}", rounds(100_000));
    });
    drop(table);
    wait_until_alive(&alive, 0);
}

/// Several threads restore one evicted object at a time; all must get the same one.
#[test]
fn concurrent_restores_make_one_object() {
    let (table, alive) = (Table::new(1), Arc::default());
    for _ in 0..rounds(2_000) {
        let objects: Vec<usize> = std::thread::scope(|scope| {
            let restore = || {
                let held = table.restore(3, 1, |number, _, _| Tracked::new(number, &alive));
                let (held, _) = held.expect("the generation is right");
                held.into_raw_count();
                let g = epoch::pin();
                table
                    .get(3, &g)
                    .map_or(0, |object| std::ptr::from_ref(object).addr())
            };
            let threads = [scope.spawn(restore), scope.spawn(restore)];
            threads
                .map(|thread| thread.join().expect("no panic"))
                .into()
        });
        assert_eq!(objects[0], objects[1]);
        let g = epoch::pin();
        let object = table.get(3, &g).expect("restored");
        object.put_many(2);
        assert!(table.evict(object, &g));
    }
    wait_until_alive(&alive, 0);
}

/// Objects come and go in two blocks of numbers while another thread takes empty blocks back: none
/// is lost, and none is found under a number that it does not have.
#[test]
fn blocks_that_are_taken_back_lose_no_object() {
    let (table, alive) = (Table::sparse(1), Arc::<AtomicUsize>::default());
    // A tree of one leaf keeps it.
    let far = 5 * BLOCK;
    let ended = AtomicBool::new(false);
    let restore = |number| {
        let made = table.restore(number, 1, |number, _, _| Tracked::new(number, &alive));
        made.expect("the generation is right").0
    };
    std::thread::scope(|scope| {
        let end = SetOnDrop(&ended);
        let workers = [far + 1, far + 2, far + BLOCK + 3].map(|number| {
            let (table, restore) = (&table, &restore);
            scope.spawn(move || {
                for _ in 0..rounds(20_000) {
                    let held = restore(number);
                    let g = epoch::pin();
                    let found = table.get(number, &g).expect("it was just restored");
                    assert_eq!((found.number, held.number), (number, number));
                    drop(held);
                    assert!(table.evict(found, &g));
                }
            })
        });
        let trimmer = scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                let g = epoch::pin();
                table.trim(0..u64::MAX, &g);
                g.flush();
                drop(g);
                std::thread::yield_now();
            }
        });
        for worker in workers {
            worker.join().expect("no panic");
        }
        drop(end);
        trimmer.join().expect("no panic");
    });
    wait_until_alive(&alive, 0);
    drop(restore(far));
    assert_eq!(table.len(), 1);
}
