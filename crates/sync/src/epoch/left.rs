//! Bags that are due and whose threads have not come for them.
//!
//! A thread that lost its core comes back, mostly within some tens of milliseconds, and frees what it
//! left itself: its memory then stays with it. Others free a bag after [`WAIT`], or when too much is
//! left.

use super::bag::Bag;
use super::work::Work;
use crate::primitive::{Arc, Mutex};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a bag waits for its thread: longer than it takes 32 others to have a core in turn.
const WAIT: Duration = Duration::from_millis(100);

/// Bags that wait, the oldest first.
pub(super) struct Left {
    state: Mutex<State>,
}

struct State {
    bags: VecDeque<(Instant, Arc<Bag<Work>>)>,
    /// Somebody comes back to look.
    is_watched: bool,
}

impl Left {
    pub const fn new() -> Left {
        Left {
            state: Mutex::new(State {
                bags: VecDeque::new(),
                is_watched: false,
            }),
        }
    }

    /// Keeps `bag` for its thread. True if nobody watches the bags: the caller does from now on.
    #[must_use]
    pub fn keep(&self, bag: Arc<Bag<Work>>) -> bool {
        let mut state = self.state.lock();
        state.bags.push_back((Instant::now(), bag));
        !std::mem::replace(&mut state.is_watched, true)
    }

    /// Frees what has waited long enough. True if more is left: whoever watches goes on, else it has
    /// ended.
    #[must_use]
    pub fn watch(&self) -> bool {
        let now = Instant::now();
        let mut old = Vec::new();
        let goes_on = {
            let mut state = self.state.lock();
            while let Some((since, bag)) = state.bags.front() {
                match bag.is_taken() {
                    true => drop(state.bags.pop_front()),
                    false if now.duration_since(*since) < WAIT => break,
                    false => old.extend(state.bags.pop_front()),
                }
            }
            state.is_watched = !state.bags.is_empty();
            state.is_watched
        };
        old.into_iter().for_each(|(_, bag)| free(&bag));
        goes_on
    }

    /// Frees all that is left, however young.
    pub fn free_all(&self) {
        let bags = std::mem::take(&mut self.state.lock().bags);
        bags.into_iter().for_each(|(_, bag)| free(&bag));
    }
}

/// Frees what is in `bag`, unless its thread was faster.
pub(super) fn free(bag: &Bag<Work>) {
    bag.take().into_iter().flatten().for_each(Work::run);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitive::atomic::{AtomicUsize, Ordering::SeqCst};
    use crate::primitive::thread::sleep;

    /// A bag that is due and counts when it is freed.
    fn due(freed: &Arc<AtomicUsize>) -> Arc<Bag<Work>> {
        let freed = Arc::clone(freed);
        // SAFETY: the closure owns all that it uses.
        let work = unsafe { Work::new(move || _ = freed.fetch_add(1, SeqCst)) };
        let bag = Arc::new(Bag::new(vec![work]));
        bag.fall_due();
        bag
    }

    #[test]
    fn a_bag_waits_for_its_thread_and_is_freed_by_others_in_the_end() {
        let (left, freed) = (Left::new(), Arc::default());
        let begin = Instant::now();
        assert!(left.keep(due(&freed)), "nobody watched");
        assert!(!left.keep(due(&freed)), "the first one watches");
        while left.watch() {
            let early = begin.elapsed() < WAIT;
            assert!(freed.load(SeqCst) < 2 || !early);
            sleep(Duration::from_millis(1));
        }
        assert!(begin.elapsed() >= WAIT);
        assert_eq!(freed.load(SeqCst), 2);
        assert!(left.keep(due(&freed)), "who watched has ended");
    }

    #[test]
    fn a_bag_that_its_thread_took_is_forgotten() {
        let (left, freed) = (Left::new(), Arc::default());
        let own = due(&freed);
        assert!(left.keep(Arc::clone(&own)));
        let works = own.take().unwrap();
        assert!(!left.watch());
        assert_eq!((works.len(), freed.load(SeqCst)), (1, 0));
        assert_eq!(Arc::strong_count(&own), 1);
    }

    #[test]
    fn who_needs_the_room_does_not_wait() {
        let (left, freed) = (Left::new(), Arc::default());
        assert!(left.keep(due(&freed)));
        left.free_all();
        assert_eq!(freed.load(SeqCst), 1);
        assert!(!left.watch(), "nothing is left to watch");
    }
}
