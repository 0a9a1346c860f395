//! Counters that each thread adds to on lines of its own, without a locked instruction.

use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::primitive::thread_number::{MOST, known_number, thread_number};
use crate::rcu::OnceSlot;
use crossbeam_utils::CachePadded;

/// Parts of the first chunk, as a power of two; each further chunk has twice as many.
// Under loom no thread has a number.
const FIRST_LOG2: u32 = if cfg!(feature = "loom") { 0 } else { 3 };
const FIRST: usize = 1 << FIRST_LOG2;
/// Enough for every number of a thread, behind the first chunk.
const CHUNKS: usize = ((MOST + FIRST).ilog2() - FIRST_LOG2) as usize;

/// `N` sums, exact while nobody adds. For what is written by every call and read now and then.
///
/// A thread adds to the part that its number (`thread_number.rs`) selects: a load and a store,
/// because nobody else writes there. A part stays with what its thread has added when the thread
/// exits, and the next thread with that number goes on from there. Threads without a number share
/// one part and add to it atomically.
///
/// A sum that has an addition shows what its thread did before: additions are Release, sums
/// Acquire. The next owner of a part has synchronised with the last one by the number.
pub struct ThreadCounters<const N: usize> {
    /// The first chunk, found without arithmetic: most programs have no more threads at a time.
    first: Box<[Part<N>; FIRST]>,
    /// The chunks behind it, by their numbers less one.
    more: [OnceSlot<Box<[Part<N>]>>; CHUNKS],
    shared: Part<N>,
}

type Part<const N: usize> = CachePadded<[AtomicU64; N]>;

impl<const N: usize> ThreadCounters<N> {
    /// All sums at zero.
    pub fn new() -> ThreadCounters<N> {
        ThreadCounters {
            first: Box::new(std::array::from_fn(|_| part())),
            more: std::array::from_fn(|_| OnceSlot::empty()),
            shared: part(),
        }
    }

    /// Adds `delta` to sum `which`.
    ///
    /// # Panics
    /// When `which` is not below `N`.
    // Always inlined: a call saves and restores as many registers as it needs instructions.
    #[inline(always)]
    pub fn add(&self, which: usize, delta: i64) {
        match self.first.get(known_number()) {
            Some(part) => add_to(&part[which], delta),
            None => self.add_further(which, delta),
        }
    }

    /// [`ThreadCounters::add`] by a thread whose part is not in the first chunk, or not known.
    #[inline(never)]
    fn add_further(&self, which: usize, delta: i64) {
        match thread_number() {
            Some(number) => add_to(&self.part(number)[which], delta),
            None => {
                // Release: see the type.
                self.shared[which].fetch_add(delta.cast_unsigned(), Ordering::Release);
            }
        }
    }

    /// Sum `which`.
    ///
    /// # Panics
    /// When `which` is not below `N`.
    pub fn sum(&self, which: usize) -> i64 {
        let chunks = self.more.iter().filter_map(OnceSlot::get);
        let more = chunks.flat_map(|chunk| chunk.iter());
        let parts = self.first.iter().chain(more);
        parts
            .chain([&self.shared])
            .fold(0_u64, |sum, part| {
                // Acquire: see the type.
                sum.wrapping_add(part[which].load(Ordering::Acquire))
            })
            .cast_signed()
    }

    fn part(&self, number: usize) -> &Part<N> {
        if let Some(part) = self.first.get(number) {
            return part;
        }
        let place = number + FIRST;
        let chunk = (place.ilog2() - FIRST_LOG2) as usize;
        let make = || (0..FIRST << chunk).map(|_| part()).collect();
        &self.more[chunk - 1].get_or_set(make)[place - (FIRST << chunk)]
    }
}

/// Adds to a word of the calling thread.
#[inline(always)]
fn add_to(word: &AtomicU64, delta: i64) {
    // Relaxed: no other thread writes it.
    let sum = word.load(Ordering::Relaxed).wrapping_add_signed(delta);
    // Release: see the type. It is the last access: the counters may be dropped right after it.
    word.store(sum, Ordering::Release);
}

fn part<const N: usize>() -> Part<N> {
    CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0)))
}

impl<const N: usize> Default for ThreadCounters<N> {
    fn default() -> ThreadCounters<N> {
        ThreadCounters::new()
    }
}

impl<const N: usize> std::fmt::Debug for ThreadCounters<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries((0..N).map(|which| self.sum(which)))
            .finish()
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::primitive::rounds;

    #[test]
    fn nothing_is_lost_while_threads_come_and_go_and_inherit_parts() {
        let counters = ThreadCounters::<2>::new();
        let (threads, each) = (rounds(400), 500);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..threads / 4 {
                        let one = || (0..each).for_each(|n| counters.add(n % 2, 1 + n as i64 % 2));
                        std::thread::scope(|inner| {
                            inner.spawn(one);
                        });
                        one();
                    }
                });
            }
        });
        let half = (threads / 4 * 4 * 2 * each as u64 / 2) as i64;
        assert_eq!((counters.sum(0), counters.sum(1)), (half, 2 * half));
    }

    #[test]
    fn every_number_has_a_part_of_its_own() {
        let counters = ThreadCounters::<1>::new();
        let mut parts: Vec<*const Part<1>> = (0..MOST)
            .map(|number| std::ptr::from_ref(counters.part(number)))
            .collect();
        parts.sort_unstable();
        parts.dedup();
        assert_eq!(parts.len(), MOST);
    }

    #[test]
    fn a_thread_that_exits_still_counts() {
        /// Adds when the thread's variables are destroyed.
        struct Late(&'static ThreadCounters<1>);
        impl Drop for Late {
            fn drop(&mut self) {
                self.0.add(0, 1);
            }
        }
        thread_local! {
            static LATE: std::cell::Cell<Option<Late>> = const { std::cell::Cell::new(None) };
        }
        let counters: &'static _ = Box::leak(Box::new(ThreadCounters::<1>::new()));
        // Before and after the number is taken, so that it goes before or after the variable.
        for first in [true, false] {
            let one = move || {
                (!first).then(|| counters.add(0, 1));
                LATE.set(Some(Late(counters)));
                first.then(|| counters.add(0, 1));
            };
            std::thread::spawn(one).join().unwrap();
        }
        assert_eq!(counters.sum(0), 4);
    }
}
