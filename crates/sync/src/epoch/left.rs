//! Bags that are due and whose threads have not come for them.
//!
//! A thread that lost its core comes back, mostly within some tens of milliseconds, and frees what
//! it left itself: its memory then stays with it. Others free a bag after [`WAIT`], or when too
//! much is left.

use super::bag::Bag;
use super::work::Work;
use crate::primitive::{Arc, Mutex};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a bag waits for its thread: longer than it takes 32 others to have a core in turn.
const WAIT: Duration = Duration::from_millis(100);
/// Who watches and was not seen for so long does not come any more: a panic took its word along.
const LOST: Duration = Duration::from_secs(2);
/// Bags that one look takes out: whoever looks does it on the way to something else.
const MOST: usize = 4;

/// Bags that wait, the oldest first.
pub(super) struct Left {
    state: Mutex<State>,
}

struct State {
    bags: VecDeque<(Instant, Arc<Bag<Work>>)>,
    /// When somebody looked who comes back to look again.
    watched: Option<Instant>,
}

impl State {
    const fn new() -> State {
        State {
            bags: VecDeque::new(),
            watched: None,
        }
    }
}

/// What one look found.
#[derive(Default)]
pub(super) struct Look {
    /// To be [freed](free) by whoever looked.
    pub free: Vec<Arc<Bag<Work>>>,
    /// More is left: whoever watches comes back, else it has ended.
    pub goes_on: bool,
}

impl Left {
    #[cfg(not(feature = "loom"))]
    pub const fn new() -> Left {
        Left {
            state: Mutex::new(State::new()),
        }
    }

    /// The same for the model checker, whose locks cannot be made at compile time.
    #[cfg(feature = "loom")]
    pub fn new() -> Left {
        Left {
            state: Mutex::new(State::new()),
        }
    }

    /// Keeps `bag` for its thread. True if nobody watches the bags: the caller does from now on.
    #[must_use]
    pub fn keep(&self, bag: Arc<Bag<Work>>, now: Instant) -> bool {
        let mut state = self.state.lock();
        state.bags.push_back((now, bag));
        let is_watched = state
            .watched
            .is_some_and(|seen| now.saturating_duration_since(seen) < LOST);
        if !is_watched {
            state.watched = Some(now);
        }
        !is_watched
    }

    /// Takes out what has waited long enough, or belongs to a thread that has ended.
    #[must_use]
    pub fn look(&self, now: Instant) -> Look {
        let mut look = Look::default();
        let mut state = self.state.lock();
        state.bags.retain(|(since, bag)| {
            if bag.is_taken() {
                return false;
            }
            // Its thread holds the other share.
            let is_due =
                Arc::strong_count(bag) == 1 || now.saturating_duration_since(*since) >= WAIT;
            let takes = is_due && look.free.len() < MOST;
            if takes {
                look.free.push(Arc::clone(bag));
            }
            !takes
        });
        look.goes_on = !state.bags.is_empty();
        state.watched = look.goes_on.then_some(now);
        look
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

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::primitive::atomic::{AtomicUsize, Ordering::SeqCst};
    use crate::primitive::thread::sleep;

    /// A bag that is due and counts when it is freed, and the share of its thread.
    fn due(freed: &Arc<AtomicUsize>) -> (Arc<Bag<Work>>, Arc<Bag<Work>>) {
        let freed = Arc::clone(freed);
        // SAFETY: the closure owns all that it uses.
        let work = unsafe { Work::new(move || _ = freed.fetch_add(1, SeqCst)) };
        let bag = Arc::new(Bag::new(vec![work]));
        bag.fall_due();
        (Arc::clone(&bag), bag)
    }

    #[test]
    fn a_bag_waits_for_its_thread_and_is_freed_by_others_in_the_end() {
        let (left, freed) = (Left::new(), Arc::default());
        let begin = Instant::now();
        let (bags, _threads): (Vec<_>, Vec<_>) = (0..2).map(|_| due(&freed)).unzip();
        let watches: Vec<bool> = bags
            .into_iter()
            .map(|bag| left.keep(bag, Instant::now()))
            .collect();
        assert_eq!(watches, [true, false], "the first one watches");
        loop {
            let look = left.look(Instant::now());
            look.free.iter().for_each(|bag| free(bag));
            if !look.goes_on {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        assert!(begin.elapsed() >= WAIT);
        assert_eq!(freed.load(SeqCst), 2);
        assert!(
            left.keep(due(&freed).0, Instant::now()),
            "who watched has ended"
        );
    }

    #[test]
    fn a_bag_that_its_thread_took_is_forgotten() {
        let (left, freed) = (Left::new(), Arc::default());
        let (bag, own) = due(&freed);
        assert!(left.keep(bag, Instant::now()));
        let works = own.take().unwrap();
        let look = left.look(Instant::now());
        assert!(look.free.is_empty() && !look.goes_on);
        assert_eq!((works.len(), freed.load(SeqCst)), (1, 0));
        assert_eq!(Arc::strong_count(&own), 1);
    }

    #[test]
    fn bags_of_threads_that_ended_do_not_wait_and_are_taken_a_few_at_a_time() {
        let (left, freed) = (Left::new(), Arc::default());
        let (young, _thread) = due(&freed);
        let _ = left.keep(young, Instant::now());
        (0..MOST + 1).for_each(|_| _ = left.keep(due(&freed).0, Instant::now()));
        let looks = [0; 3].map(|_| left.look(Instant::now()).free.len());
        assert_eq!(looks, [MOST, 1, 0]);
    }

    #[test]
    fn who_needs_the_room_does_not_wait() {
        let (left, freed) = (Left::new(), Arc::default());
        let (bag, _thread) = due(&freed);
        assert!(left.keep(bag, Instant::now()));
        left.free_all();
        assert_eq!(freed.load(SeqCst), 1);
        assert!(
            !left.look(Instant::now()).goes_on,
            "nothing is left to watch"
        );
    }

    #[test]
    fn a_watch_that_is_lost_is_taken_up_by_another() {
        let (left, freed) = (Left::new(), Arc::default());
        assert!(left.keep(due(&freed).0, Instant::now()));
        left.state.lock().watched = Instant::now().checked_sub(LOST);
        assert!(left.keep(due(&freed).0, Instant::now()));
    }
}
