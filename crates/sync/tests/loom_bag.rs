//! Who frees what a thread has retired: every interleaving of the thread, of the two words that go
//! through the collector, and of a reader that the first word has waited for.
//!
//! Run with `cargo test -p hearth-sync --features loom --test loom_bag`.

#[path = "../src/epoch/bag.rs"]
mod bag;

use bag::Bag;
use hearth_sync::primitive::{self, Arc, thread};
use loom::cell::UnsafeCell;
use std::sync::Arc as PlainArc;
use std::sync::atomic::{AtomicUsize as PlainUsize, Ordering::SeqCst};

/// Something retired: read under guards, written by who frees it. The model checks that the one
/// happens before the other.
#[derive(Clone)]
struct Thing {
    uses: Arc<UnsafeCell<u64>>,
    freed: PlainArc<PlainUsize>,
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

fn free_all(bag: &Bag<Thing>) {
    bag.take()
        .into_iter()
        .flatten()
        .for_each(|thing| thing.free());
}

#[test]
fn what_is_retired_is_freed_once_and_after_its_readers_whoever_comes_first() {
    loom::model(|| {
        let thing = Thing {
            uses: Arc::new(UnsafeCell::new(1)),
            freed: PlainArc::default(),
        };
        let bag = Arc::new(Bag::new(vec![thing.clone()]));
        // The collector calls the first word after the last reader, and the second after the first.
        let words = {
            let (bag, thing) = (Arc::clone(&bag), thing.clone());
            thread::spawn(move || {
                thing.read();
                bag.fall_due();
                free_all(&bag);
            })
        };
        // The thread that retired it, at two looks.
        free_all(&bag);
        free_all(&bag);
        let early = bag.is_taken();
        words.join().unwrap();
        assert!(bag.is_taken());
        assert_eq!(thing.freed.load(SeqCst), 1, "taken early: {early}");
        assert!(bag.take().is_none());
    });
}
