//! Handles of a volume: one is taken while the last one of its core goes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use hearth_sync::primitive::thread;
use hearth_sync::primitive::{Arc, core};

use crate::explore::explore;
use crate::handle::{Handle, HandleShares, HasHandles};

const SCHEDULES: usize = 3000;

/// What the handles lead to.
struct Volume {
    handles: HandleShares<Volume>,
    /// How often it has ended. Outlives it; not part of the schedule.
    ends: Arc<AtomicUsize>,
}

impl HasHandles for Volume {
    fn handles(&self) -> &HandleShares<Volume> {
        &self.handles
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.ends.fetch_add(1, SeqCst);
    }
}

fn volume() -> (Handle<Volume>, Arc<AtomicUsize>) {
    let ends = Arc::new(AtomicUsize::new(0));
    let volume = Arc::new(Volume {
        handles: HandleShares::new(),
        ends: Arc::clone(&ends),
    });
    (Handle::new(&volume), ends)
}

/// Tasks count as cores in the order of their start, modulo four.
fn spend_tasks(count: usize) {
    for _ in 0..count {
        thread::spawn(|| {}).join().unwrap();
    }
}

#[test]
fn one_is_taken_on_a_core_while_the_last_one_of_that_core_goes() {
    explore(SCHEDULES, &["before", "meanwhile", "after"], || {
        let (first, ends) = volume();
        let weak = first.downgrade();
        let here = core();
        let elsewhere = thread::spawn({
            let first = first.clone();
            move || first.clone()
        });
        let elsewhere = elsewhere.join().unwrap();
        assert_eq!(weak.strong_count(), 2, "a share here and one there");
        spend_tasks(2);
        let gone = Arc::new(AtomicBool::new(false));
        let taker = thread::spawn({
            let gone = Arc::clone(&gone);
            move || {
                assert_eq!(core(), here);
                let began = gone.load(SeqCst);
                let taken = elsewhere.clone();
                let when = match (began, gone.load(SeqCst)) {
                    (false, false) => "before",
                    (false, true) => "meanwhile",
                    _ => "after",
                };
                (taken, when)
            }
        });
        drop(first);
        gone.store(true, SeqCst);
        let (taken, when) = taker.join().unwrap();
        assert_eq!(weak.strong_count(), 1, "one share is left");
        let again = taken.clone();
        assert_eq!(weak.strong_count(), 1, "and serves the next one");
        drop(taken);
        assert_eq!(ends.load(SeqCst), 0, "a handle is left");
        drop(again);
        assert_eq!(ends.load(SeqCst), 1, "it ends with the last one, once");
        when
    });
}

#[test]
fn two_that_are_taken_on_one_core_at_once_have_one_share() {
    explore(SCHEDULES, &["at once", "one by one"], || {
        let (first, ends) = volume();
        let weak = first.downgrade();
        let taking = Arc::new(AtomicUsize::new(0));
        let takers: Vec<_> = (0..2)
            .map(|nth| {
                // The tasks between the two are other cores.
                let others: Vec<_> = (0..3 * nth).map(|_| thread::spawn(|| {})).collect();
                let (first, taking) = (first.clone(), Arc::clone(&taking));
                let taker = thread::spawn(move || {
                    let met = taking.fetch_add(1, SeqCst);
                    let taken = first.clone();
                    taking.fetch_sub(1, SeqCst);
                    (taken, core(), met)
                });
                (taker, others)
            })
            .collect();
        drop(first);
        let taken: Vec<_> = takers
            .into_iter()
            .map(|(taker, others)| {
                others.into_iter().for_each(|other| other.join().unwrap());
                taker.join().unwrap()
            })
            .collect();
        assert_eq!(taken[0].1, taken[1].1, "the same core");
        assert_eq!(weak.strong_count(), 1, "one share for both");
        let met = taken.iter().any(|(_, _, met)| *met == 1);
        for (handle, ..) in taken {
            assert_eq!(ends.load(SeqCst), 0, "a handle is left");
            thread::spawn(move || drop(handle)).join().unwrap();
        }
        assert_eq!(ends.load(SeqCst), 1, "it ends with the last one, once");
        if met { "at once" } else { "one by one" }
    });
}
