//! crossbeam-epoch's default collector, and bags: what a thread retires, that thread frees.
//!
//! By itself the collector lets any thread free what another one retired, and goes through a shared
//! list for every 64 objects. An allocator then moves the memory from core to core with each of
//! them, and two threads that open and close files of their own do a fifth less each than one. So a
//! thread gathers what it retires in a [`Bag`] of its own, and only word that a bag is due goes
//! through the collector. A thread that retires nothing any more does not come for its bags; so
//! word goes round a second time, and who gets it then frees what is left.
//!
//! What is freed runs code of others, so it is done where that is expected: when a thread pins that
//! is not pinned, and a few things at a time, so that no operation pays for a thousand others.

use super::bag::Bag;
use super::work::Work;
use crate::primitive::Arc;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::vec::IntoIter;

/// Things in a bag that is closed; what is retired under one guard stays together, so it may be
/// more.
const FULL: usize = 1024;
/// Things retired between two looks at what is due.
const LOOK: usize = 16;
/// Most things done at one look; more than [`LOOK`], or what is due would grow.
const DONE: usize = 3 * LOOK;

/// A pinned participant.
pub(super) struct Guard(crossbeam_epoch::Guard);

/// What a thread has retired.
#[derive(Default)]
struct Own {
    open: RefCell<Vec<Work>>,
    closed: RefCell<VecDeque<Arc<Bag<Work>>>>,
    /// What is left of a bag that was taken.
    due: RefCell<IntoIter<Work>>,
    /// It is at work: what that retires in turn waits for the next look.
    is_busy: Cell<bool>,
    /// The bag is to be closed though it is not full.
    is_wanted: Cell<bool>,
    /// The collector has word that this thread should hand on.
    has_word: Cell<bool>,
}

thread_local! {
    static OWN: Own = Own::default();
    /// There is something to look at.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

#[inline]
pub(super) fn pin() -> Guard {
    if LOOKS.get() {
        look();
    }
    Guard(crossbeam_epoch::pin())
}

/// Whether this thread has a guard.
pub(super) fn is_pinned() -> bool {
    crossbeam_epoch::is_pinned()
}

#[cold]
fn look() {
    if !crossbeam_epoch::is_pinned() {
        LOOKS.set(false);
        let _ = OWN.try_with(Own::look);
    }
}

/// Has the thread close its bag at the next look.
pub(super) fn close_soon() {
    let _ = OWN.try_with(|own| own.is_wanted.set(true));
    LOOKS.set(true);
}

impl Guard {
    pub(super) fn flush(&self) {
        let _ = OWN.try_with(|own| own.flush(&self.0));
    }

    pub(super) fn repin(&mut self) {
        self.0.repin();
    }

    /// # Safety
    ///
    /// As [`super::Guard::defer`].
    #[inline]
    pub(super) unsafe fn defer(&self, work: impl FnOnce() + 'static) {
        // SAFETY: the caller promises that `work` may run later on any thread.
        let mut work = Some(unsafe { Work::new(work) });
        let kept = OWN.try_with(|own| {
            let mut open = own.open.borrow_mut();
            open.extend(work.take());
            if open.len().is_multiple_of(LOOK) {
                LOOKS.set(true);
            }
        });
        if let (Err(_), Some(work)) = (kept, work) {
            self.hand_over(work);
        }
    }

    /// The thread is ending and has no bag any more.
    #[cold]
    fn hand_over(&self, work: Work) {
        // SAFETY: as in `defer`.
        unsafe { self.0.defer_unchecked(move || work.run()) };
    }
}

impl Own {
    /// Does some of what is due, and closes the bag if it is full.
    fn look(&self) {
        if self.is_busy.replace(true) {
            return;
        }
        let closes = self.open.borrow().len() >= FULL || self.is_wanted.get();
        if closes || self.has_word.take() {
            let g = crossbeam_epoch::pin();
            if closes {
                self.close(&g);
            }
            g.flush();
        }
        self.work(DONE);
        self.is_busy.set(false);
    }

    /// Closes the bag, does all that is due, and has the collector work a little.
    fn flush(&self, g: &crossbeam_epoch::Guard) {
        if self.is_busy.replace(true) {
            return;
        }
        self.close(g);
        self.work(usize::MAX);
        g.flush();
        self.is_busy.set(false);
    }

    /// Sends word that what was retired is due, once it is.
    fn close(&self, g: &crossbeam_epoch::Guard) {
        self.is_wanted.set(false);
        let works = self.open.replace(Vec::with_capacity(FULL));
        if works.is_empty() {
            return;
        }
        let bag = Arc::new(Bag::new(works));
        send_word(Arc::clone(&bag), g);
        self.closed.borrow_mut().push_back(bag);
    }

    /// Does up to `most` of the things that are due.
    fn work(&self, most: usize) {
        for _ in 0..most {
            let next = self.due.borrow_mut().next();
            let Some(work) = next.or_else(|| self.next_bag()) else {
                return;
            };
            work.run();
        }
    }

    /// The first thing of the next bag that is due.
    fn next_bag(&self) -> Option<Work> {
        let mut closed = self.closed.borrow_mut();
        while closed.front().is_some_and(|bag| bag.is_taken()) {
            closed.pop_front();
        }
        let mut works = closed.front()?.take()?.into_iter();
        closed.pop_front();
        let first = works.next();
        *self.due.borrow_mut() = works;
        first
    }
}

/// The thread ends: what it has retired is for others, but for what is due.
impl Drop for Own {
    fn drop(&mut self) {
        let g = crossbeam_epoch::pin();
        self.close(&g);
        self.due.take().for_each(Work::run);
        g.flush();
    }
}

/// Lets `bag` fall due when no guard that exists now is left, and be taken by anybody who comes by
/// another such time later.
fn send_word(bag: Arc<Bag<Work>>, g: &crossbeam_epoch::Guard) {
    let word = move || {
        bag.fall_due();
        let last = move || {
            for work in bag.take().into_iter().flatten() {
                work.run();
            }
        };
        // SAFETY: as below.
        unsafe { crossbeam_epoch::pin().defer_unchecked(last) };
        let _ = OWN.try_with(|own| own.has_word.set(true));
        LOOKS.set(true);
    };
    // SAFETY: the closure owns its share of the bag, and what is in there may run on any thread.
    unsafe { g.defer_unchecked(word) };
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pinned")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{pin, retire};
    use super::FULL;
    use crate::primitive::atomic::{AtomicUsize, Ordering::SeqCst};
    use crate::primitive::{Arc, thread};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    /// Drops: by the thread that retired it, by others.
    #[derive(Default)]
    struct Drops([AtomicUsize; 2]);

    struct Thing(Arc<Drops>, thread::ThreadId);

    impl Drop for Thing {
        fn drop(&mut self) {
            let other = usize::from(thread::current().id() != self.1);
            self.0.0[other].fetch_add(1, SeqCst);
        }
    }

    fn retire_some(drops: &Arc<Drops>, some: usize) {
        for _ in 0..some {
            let thing = Thing(Arc::clone(drops), thread::current().id());
            retire(Box::new(thing), &pin());
        }
    }

    fn wait_until(met: impl Fn() -> bool) {
        let limit = Instant::now() + Duration::from_secs(60);
        while !met() {
            pin().flush();
            thread::yield_now();
            assert!(Instant::now() < limit, "nobody frees it");
        }
    }

    #[test]
    fn who_goes_on_frees_what_it_retired_itself() {
        let drops = Arc::new(Drops::default());
        let done = Arc::new(AtomicUsize::new(0));
        let (busy, seen) = (Arc::clone(&drops), Arc::clone(&done));
        let busy = thread::spawn(move || {
            retire_some(&busy, 100 * FULL);
            let own = busy.0[0].load(SeqCst);
            seen.store(1, SeqCst);
            own
        });
        // Another one works at the collector all the time.
        wait_until(|| done.load(SeqCst) == 1);
        let own = busy.join().unwrap();
        assert!(own >= 50 * FULL, "{own} of {}", 100 * FULL);
    }

    #[test]
    fn who_stops_leaves_its_bags_to_others_and_who_ends_leaves_all() {
        let drops = Arc::new(Drops::default());
        let (go, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let lazy = Arc::clone(&drops);
        let lazy = thread::spawn(move || {
            // A little more than two bags, so that the second one is closed too.
            retire_some(&lazy, 2 * FULL + 100);
            tell.send(()).unwrap();
            wait.recv().unwrap();
        });
        told.recv().unwrap();
        let all = || drops.0[0].load(SeqCst) + drops.0[1].load(SeqCst);
        wait_until(|| all() >= 2 * FULL);
        go.send(()).unwrap();
        lazy.join().unwrap();
        wait_until(|| all() == 2 * FULL + 100);
    }
}
