//! RCU pointers under loom.

use super::{Mortal, Published, check};
use hearth_sync::epoch;
use hearth_sync::primitive::{Arc, thread};
use hearth_sync::rcu::{OnceSlot, RcuSlot, Share, ShareSlot, TagSlot};
use loom::cell::UnsafeCell;
use std::sync::Arc as PlainArc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn an_rcu_slot_publishes_complete_values() {
    check(5, || {
        let slot = Arc::new(RcuSlot::<Published>::empty());
        let writer = Arc::clone(&slot);
        let writer = thread::spawn(move || {
            let g = epoch::pin();
            for value in 1..=2 {
                writer.store(Some(Published::new(value)), &g);
            }
        });
        let g = epoch::pin();
        if let Some(value) = slot.load(&g) {
            assert!(value.read() > 0);
        }
        let installed = slot.install(Published::new(9), &g).map(Published::read);
        drop(installed);
        assert!(slot.load(&g).is_some());
        drop(g);
        writer.join().unwrap();
    });
}

#[test]
fn one_of_two_installs_wins_with_a_complete_value() {
    check(5, || {
        let slot = Arc::new(RcuSlot::<Published>::empty());
        let install = |slot: &RcuSlot<Published>, value| {
            let g = epoch::pin();
            let installed = slot.install(Published::new(value), &g);
            installed
                .map_err(|back| assert_eq!(back.read(), value))
                .is_ok()
        };
        let other = Arc::clone(&slot);
        let other = thread::spawn(move || install(&other, 1));
        let g = epoch::pin();
        if let Some(value) = slot.load(&g) {
            assert_eq!(value.read(), 1);
        }
        assert_ne!(install(&slot, 2), other.join().unwrap(), "one of two wins");
    });
}

#[test]
fn once_slot_readers_see_one_complete_value() {
    check(5, || {
        let slot = Arc::new(OnceSlot::<Published>::empty());
        let set =
            |slot: &OnceSlot<Published>, value| slot.get_or_set(|| *Published::new(value)).read();
        let other = Arc::clone(&slot);
        let other = thread::spawn(move || set(&other, 1));
        let seen = slot.get().map(Published::read);
        let mine = set(&slot, 2);
        assert!(seen.is_none_or(|seen| seen == mine));
        assert_eq!(mine, other.join().unwrap());
    });
}

#[test]
fn a_moved_value_is_never_in_both_slots() {
    check(5, || {
        let slots = Arc::new((RcuSlot::new(Published::new(5)), RcuSlot::empty()));
        let mover = Arc::clone(&slots);
        let mover = thread::spawn(move || mover.0.move_to(&mover.1, &epoch::pin()));
        let g = epoch::pin();
        if let Some(value) = slots.1.load(&g) {
            assert_eq!(value.read(), 5);
            assert!(
                slots.0.load(&g).is_none(),
                "it was found in its new place already"
            );
        }
        mover.join().unwrap();
        assert!(slots.0.is_empty() && slots.1.load(&g).is_some());
    });
}

#[test]
fn a_value_moved_by_another_thread_is_complete() {
    check(4, || {
        let slots = Arc::new((RcuSlot::<Published>::empty(), RcuSlot::<Published>::empty()));
        let mover = Arc::clone(&slots);
        let mover = thread::spawn(move || mover.0.move_to(&mover.1, &epoch::pin()));
        let writer = Arc::clone(&slots);
        let writer = thread::spawn(move || writer.0.store(Some(Published::new(5)), &epoch::pin()));
        let g = epoch::pin();
        if let Some(value) = slots.1.load(&g) {
            assert_eq!(value.read(), 5);
        }
        drop(g);
        mover.join().unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn a_tag_comes_with_its_own_value() {
    tags_come_with_values(|slot, tag, g| {
        slot.store(Some((tag, Published::new(u64::from(tag)))), g);
    });
}

/// As with the entries of a directory: the holder of a lock fills an empty slot, or replaces what
/// is there.
#[test]
fn a_tag_that_one_thread_puts_in_comes_with_its_own_value() {
    tags_come_with_values(|slot, tag, g| slot.put(tag, Published::new(u64::from(tag)), g));
}

fn tags_come_with_values(store: fn(&TagSlot<Published>, u16, &epoch::Guard)) {
    check(5, move || {
        let slot = Arc::new(TagSlot::<Published>::empty());
        let writer = Arc::clone(&slot);
        let writer = thread::spawn(move || {
            let g = epoch::pin();
            store(&writer, 1, &g);
            store(&writer, 2, &g);
            writer.take(&g);
        });
        let g = epoch::pin();
        if let Some(value) = slot.load_if(2, &g) {
            assert_eq!(value.read(), 2);
        }
        if let Some((tag, value)) = slot.load(&g) {
            assert_eq!(u64::from(tag), value.read());
        }
        drop(g);
        writer.join().unwrap();
    });
}

/// As with a file descriptor: one thread closes it, one reads through it, and one keeps what it
/// found.
#[test]
fn a_share_lives_as_long_as_a_guard_or_a_counted_copy() {
    check(5, || {
        let made = Share::new(Mortal::new());
        let drops = PlainArc::clone(&made.drops);
        let slot = Arc::new(ShareSlot::empty());
        assert!(slot.fill(made).is_ok());
        let closer = Arc::clone(&slot);
        let closer = thread::spawn(move || {
            let g = epoch::pin();
            let closed = closer.swap(None, &g).expect("nobody else closes it");
            assert!(!closed.ended.load(SeqCst), "it ended while it was closed");
        });
        let kept = {
            let g = epoch::pin();
            slot.load(&g).map(|share| {
                assert!(!share.ended.load(SeqCst), "it ended under a guard");
                share.to_share()
            })
        };
        if let Some(kept) = &kept {
            assert!(!kept.ended.load(SeqCst), "it ended under a share");
        }
        drop(kept);
        closer.join().unwrap();
        assert!(slot.is_empty());
        epoch::pin().flush();
        assert_eq!(drops.load(SeqCst), 1, "the last share ends it");
    });
}

/// As with a file descriptor: one thread opens it, and others find it, keep it and replace it.
#[test]
fn a_share_that_one_thread_fills_in_is_complete_for_reader_and_writer() {
    check(5, || {
        let slot = Arc::new(ShareSlot::<Published>::empty());
        let replacer = Arc::clone(&slot);
        let replacer = thread::spawn(move || {
            let g = epoch::pin();
            let found = replacer.load(&g).map(|found| found.read());
            // Only the first thread fills an empty slot.
            let before = found.and_then(|_| {
                let second = Share::new(*Published::new(2));
                replacer.swap(Some(second), &g).map(|before| before.read())
            });
            (found, before)
        });
        assert!(slot.fill(Share::new(*Published::new(1))).is_ok());
        let refused = slot.fill(Share::new(*Published::new(3)));
        assert!(refused.is_err_and(|back| back.read() == 3));
        let g = epoch::pin();
        let seen = slot.load(&g).expect("filled").read();
        let (found, before) = replacer.join().unwrap();
        assert!(matches!((found, before), (None, None) | (Some(1), Some(1))));
        assert!(seen == 1 || found.is_some());
        let last = slot.load(&g).map(|last| last.read());
        assert_eq!(last, Some(1 + found.map_or(0, |_| 1)));
    });
}

/// A value whose end writes what its uses read, so that loom sees an end that is not after them.
#[derive(Default)]
struct Used {
    drops: PlainArc<AtomicUsize>,
    contents: UnsafeCell<u32>,
}

// SAFETY: the cell is read by shares and written by the end; that these exclude each other is what
// is tested.
unsafe impl Sync for Used {}

impl Used {
    fn look(&self) {
        // SAFETY: see above.
        self.contents
            .with(|contents| assert_eq!(unsafe { *contents }, 0));
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        // SAFETY: see above.
        self.contents.with_mut(|contents| unsafe { *contents += 1 });
        self.drops.fetch_add(1, SeqCst);
    }
}

/// Two threads drop the shares that they have, and one of them has made another before.
#[test]
fn the_last_of_several_shares_ends_the_value_once_and_after_all_uses() {
    check(5, || {
        let first = Share::new(Used::default());
        let drops = PlainArc::clone(&first.drops);
        let second = first.clone();
        let other = thread::spawn(move || {
            let third = second.clone();
            drop(second);
            third.look();
            drop(third);
        });
        first.look();
        drop(first);
        other.join().unwrap();
        assert_eq!(drops.load(SeqCst), 1, "the last share ends it");
    });
}
