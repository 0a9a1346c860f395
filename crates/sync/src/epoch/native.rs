//! crossbeam-epoch's default collector, and bags: what a thread retires, that thread frees.
//!
//! By itself the collector lets any thread free what another one retired, and goes through a shared
//! list for every 64 objects: two threads that open and close files of their own do a fifth less
//! each than one. So a thread gathers what it retires in a [`Bag`] of its own, and only word that a
//! bag is due goes through the collector. A thread that retires nothing any more does not come for
//! its bags; so word goes round a second time, and who gets it then sees to it that others free
//! what is left in the end (`words`).
//!
//! Freeing runs code of others, so it is done where that is expected: when a thread is pinned no
//! longer, and in the collector, which works when a thread pins.

use super::bag::Bag;
use super::left::Left;
use super::words::{Post, first_word};
use super::work::Work;
use crate::primitive::Arc;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Instant;

/// Things in a bag that is closed; what is retired under one guard stays together, so it may be
/// more.
const FULL: usize = 256;
/// Things retired between two looks at what is due.
const LOOK: usize = 64;

/// A pinned participant. The fields are dropped in this order.
pub(super) struct Guard {
    inner: crossbeam_epoch::Guard,
    _unpinned: Unpinned,
}

/// Looks at what is due when the guard before it is gone.
struct Unpinned;

/// What a thread has retired.
#[derive(Default)]
struct Own {
    open: RefCell<Vec<Work>>,
    /// The room of a bag that was emptied, for the next one.
    spare: Cell<Vec<Work>>,
    closed: RefCell<VecDeque<Arc<Bag<Work>>>>,
    /// It is at work: what that retires in turn waits for the next look.
    is_busy: Cell<bool>,
    /// The bag is to be closed though it is not full.
    is_wanted: Cell<bool>,
    /// The collector has word that this thread should hand on.
    has_word: Cell<bool>,
}

/// Ends a time of being busy, also when what is freed panics.
struct Busy<'a>(&'a Cell<bool>);

/// What threads have not come for.
static LEFT: Left = Left::new();

/// The collector, and [`LEFT`].
#[derive(Clone)]
struct Collector;

thread_local! {
    static OWN: Own = Own::default();
    /// There is something to look at.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
    /// A word is being passed on.
    static PASSES: Cell<bool> = const { Cell::new(false) };
}

#[inline]
pub(super) fn pin() -> Guard {
    Guard {
        inner: crossbeam_epoch::pin(),
        _unpinned: Unpinned,
    }
}

/// Whether this thread has a guard.
pub(super) fn is_pinned() -> bool {
    crossbeam_epoch::is_pinned()
}

/// Frees what other threads have not come for, for want of room.
pub(super) fn free_left() {
    LEFT.free_all();
}

/// Has the thread close its bag when it is pinned no longer.
pub(super) fn close_soon() {
    let _ = OWN.try_with(|own| own.is_wanted.set(true));
    LOOKS.set(true);
}

impl Drop for Unpinned {
    #[inline]
    fn drop(&mut self) {
        if LOOKS.get() {
            look();
        }
    }
}

#[cold]
fn look() {
    if !crossbeam_epoch::is_pinned() {
        let _ = OWN.try_with(Own::look);
    }
}

impl Guard {
    pub(super) fn flush(&self) {
        let _ = OWN.try_with(|own| own.flush(&self.inner));
    }

    pub(super) fn repin(&mut self) {
        self.inner.repin();
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
        unsafe { self.inner.defer_unchecked(move || work.run()) };
    }
}

impl Own {
    /// Frees what is due, and closes the bag if it is full.
    fn look(&self) {
        let Some(_busy) = self.begin() else { return };
        LOOKS.set(false);
        let closes = self.open.borrow().len() >= FULL || self.is_wanted.get();
        if closes || self.has_word.get() {
            let g = crossbeam_epoch::pin();
            if closes {
                self.close(&g);
            }
            self.hand_on(&g);
        }
        self.free_due();
        // What that has retired, and words that came meanwhile.
        let more = self.open.borrow().len() >= FULL || self.is_wanted.get() || self.has_word.get();
        LOOKS.set(more);
    }

    /// Closes the bag, frees what is due, and has the collector work a little.
    fn flush(&self, g: &crossbeam_epoch::Guard) {
        let Some(_busy) = self.begin() else { return };
        self.close(g);
        self.free_due();
        self.hand_on(g);
    }

    /// Gives the collector what it has to call, and has it work: words that it calls meanwhile may
    /// send others, which would stay with this thread if it did nothing more. Ends, because while
    /// `g` is there nothing that is sent now can be due.
    fn hand_on(&self, g: &crossbeam_epoch::Guard) {
        loop {
            self.has_word.set(false);
            g.flush();
            if !self.has_word.get() {
                return;
            }
        }
    }

    /// `None` if the thread is at work already.
    fn begin(&self) -> Option<Busy<'_>> {
        let was_busy = self.is_busy.replace(true);
        (!was_busy).then_some(Busy(&self.is_busy))
    }

    /// Sends word that what was retired is due, once it is.
    fn close(&self, g: &crossbeam_epoch::Guard) {
        self.is_wanted.set(false);
        if self.open.borrow().is_empty() {
            return;
        }
        let mut empty = self.spare.take();
        empty.reserve(FULL);
        let works = self.open.replace(empty);
        let bag = Arc::new(Bag::new(works));
        // SAFETY: the closure owns its share of the bag, and what is in there may run on any
        // thread.
        unsafe { g.defer_unchecked(first_word(Arc::clone(&bag), Collector)) };
        self.closed.borrow_mut().push_back(bag);
    }

    /// Frees the bags of this thread that are due.
    fn free_due(&self) {
        while let Some(mut works) = self.next_bag() {
            works.drain(..).for_each(Work::run);
            self.spare.set(works);
        }
    }

    fn next_bag(&self) -> Option<Vec<Work>> {
        let mut closed = self.closed.borrow_mut();
        while closed.front().is_some_and(|bag| bag.is_taken()) {
            closed.pop_front();
        }
        let works = closed.front()?.take();
        if works.is_some() {
            closed.pop_front();
        }
        works
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The thread ends: what it has retired is for others.
impl Drop for Own {
    fn drop(&mut self) {
        self.free_due();
        self.close(&crossbeam_epoch::pin());
    }
}

impl Post for Collector {
    /// False for a thread that is ending: it has no place in the collector any more, so each pin
    /// makes one, which may call the next word inside of this one.
    fn pass_on(&self, word: impl FnOnce() + 'static) -> bool {
        if PASSES.replace(true) {
            return false;
        }
        // SAFETY: words own what they use, and what is in a bag may run on any thread.
        unsafe { crossbeam_epoch::pin().defer_unchecked(word) };
        PASSES.set(false);
        let _ = OWN.try_with(|own| own.has_word.set(true));
        LOOKS.set(true);
        true
    }

    fn left(&self) -> &Left {
        &LEFT
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
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
            let by = || [0, 1].map(|whose| busy.0[whose].load(SeqCst));
            // Until much was dropped: tests beside this one pin as well.
            while by().iter().sum::<usize>() < 100 * FULL {
                retire_some(&busy, FULL);
            }
            seen.store(1, SeqCst);
            by()
        });
        // Another one works at the collector all the time.
        wait_until(|| done.load(SeqCst) == 1);
        let [own, others] = busy.join().unwrap();
        assert!(own > others, "{own} by itself, {others} by others");
    }

    /// A thread that is off its core for a moment keeps its memory.
    #[test]
    fn who_pauses_for_a_moment_frees_what_it_left_itself() {
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            let drops = Arc::new(Drops::default());
            let (pauses, paused) = mpsc::channel();
            let (goes_on, go_on) = mpsc::channel::<()>();
            let thread = {
                let drops = Arc::clone(&drops);
                thread::spawn(move || {
                    retire_some(&drops, FULL);
                    pauses.send(()).unwrap();
                    go_on.recv().unwrap();
                    while drops.0.iter().all(|by| by.load(SeqCst) == 0) {
                        retire_some(&drops, 1);
                        super::close_soon();
                    }
                    [0, 1].map(|whose| drops.0[whose].load(SeqCst))
                })
            };
            paused.recv().unwrap();
            // Of what is retired now the word comes after the one before, so both have been called.
            for _ in 0..3 {
                let later = Arc::new(Drops::default());
                retire_some(&later, 1);
                wait_until(|| later.0.iter().any(|by| by.load(SeqCst) > 0));
            }
            goes_on.send(()).unwrap();
            let [own, others] = thread.join().unwrap();
            if own >= FULL && others == 0 {
                return;
            }
            assert!(
                Instant::now() < limit,
                "{own} by itself, {others} by others"
            );
        }
    }

    /// Once, a thread that ended called the words of all bags that waited one inside of the other.
    #[test]
    fn a_thread_that_ends_when_many_bags_are_due_does_not_nest_their_words() {
        let drops = Arc::new(Drops::default());
        let reader = pin();
        let (threads, bags) = (8, 200);
        let writers: Vec<_> = (0..threads)
            .map(|_| {
                let drops = Arc::clone(&drops);
                thread::spawn(move || {
                    for _ in 0..bags {
                        retire_some(&drops, FULL);
                        super::close_soon();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        drop(reader);
        let all = || drops.0[0].load(SeqCst) + drops.0[1].load(SeqCst);
        let limit = Instant::now() + Duration::from_secs(60);
        while all() < threads * bags * FULL {
            let pins = thread::Builder::new().stack_size(128 << 10);
            pins.spawn(|| drop(pin())).unwrap().join().unwrap();
            assert!(Instant::now() < limit, "{} are dropped", all());
        }
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
