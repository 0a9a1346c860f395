//! Small numbers of threads: what a number selects is written by one thread alone, without a locked
//! instruction.
//!
//! A thread takes the lowest free number when it first asks, and gives it back when it exits. The
//! next thread with the number has seen all that the last one did with it.
//!
//! | access | ordering | partner |
//! |---|---|---|
//! | take: set the bit | Acquire | give: what the last owner wrote is there |
//! | give: clear the bit | Release | take |

use crate::primitive::atomic::{AtomicU64, Ordering};

/// Words of the map of numbers. A model has few threads.
const WORDS: usize = if cfg!(feature = "loom") { 1 } else { 64 };
/// Most threads that have a number at a time.
pub(crate) const MOST: usize = WORDS * u64::BITS as usize;

/// The numbers that are taken, a bit for each.
pub(crate) struct Numbers {
    taken: [AtomicU64; WORDS],
}

impl Numbers {
    #[cfg(not(feature = "loom"))]
    pub(crate) const fn new() -> Numbers {
        Numbers {
            taken: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    /// Not `const` under loom, whose atomics have no const constructors.
    #[cfg(feature = "loom")]
    pub(crate) fn new() -> Numbers {
        Numbers {
            taken: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The lowest free number; `None` if there is none.
    pub(crate) fn take(&self) -> Option<usize> {
        let lowest = |(at, word)| Some(at * u64::BITS as usize + take_bit(word)?);
        self.taken.iter().enumerate().find_map(lowest)
    }

    /// Gives a number back that nobody uses any more.
    pub(crate) fn give(&self, number: usize) {
        let (word, bit) = (number / u64::BITS as usize, number % u64::BITS as usize);
        // Release: see the table above.
        self.taken[word].fetch_and(!(1 << bit), Ordering::Release);
    }
}

/// Sets the lowest bit of `word` that is clear.
fn take_bit(word: &AtomicU64) -> Option<usize> {
    // Relaxed: the exchange decides.
    let mut taken = word.load(Ordering::Relaxed);
    while taken != u64::MAX {
        let bit = taken.trailing_ones() as usize;
        // Acquire: see the table above.
        let set = word.compare_exchange_weak(
            taken,
            taken | 1 << bit,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        match set {
            Ok(_) => return Some(bit),
            Err(now) => taken = now,
        }
    }
    None
}

/// The number of the calling thread; `None` where it has none: too many threads have one, it is
/// exiting, or a model checker runs its tasks on one thread.
#[inline]
pub(crate) fn thread_number() -> Option<usize> {
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    return None;
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    mine::number()
}

/// [`thread_number`], if the thread has asked for it before; else more than there are.
#[inline]
pub(crate) fn known_number() -> usize {
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    return usize::MAX;
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    mine::known()
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod mine {
    use super::{MOST, Numbers};
    use std::cell::Cell;

    static NUMBERS: Numbers = Numbers::new();

    /// Not asked for yet.
    const UNKNOWN: usize = usize::MAX;
    /// There is none, for as long as the thread lives.
    const NONE: usize = usize::MAX - 1;

    /// Gives the number back when the thread exits.
    struct Held(usize);

    thread_local! {
        /// It needs no destructor, so it lives as long as the thread.
        static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
        static HELD: Cell<Option<Held>> = const { Cell::new(None) };
    }

    #[inline]
    pub(super) fn known() -> usize {
        NUMBER.get()
    }

    #[inline]
    pub(super) fn number() -> Option<usize> {
        match NUMBER.get() {
            number if number < MOST => Some(number),
            other => take(other),
        }
    }

    #[cold]
    fn take(now: usize) -> Option<usize> {
        if now == NONE {
            return None;
        }
        // First so that a thread whose exit has gone past this takes no number.
        let taken = HELD.try_with(|held| {
            let number = NUMBERS.take()?;
            held.set(Some(Held(number)));
            Some(number)
        });
        let number = taken.ok().flatten();
        NUMBER.set(number.unwrap_or(NONE));
        number
    }

    impl Drop for Held {
        fn drop(&mut self) {
            NUMBER.set(NONE);
            NUMBERS.give(self.0);
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_taken_until_there_is_none() {
        let numbers = Numbers::new();
        assert!((0..MOST).all(|due| numbers.take() == Some(due)));
        assert_eq!(numbers.take(), None);
        numbers.give(70);
        numbers.give(3);
        assert_eq!(
            [numbers.take(), numbers.take(), numbers.take()],
            [Some(3), Some(70), None]
        );
    }

    #[test]
    fn a_thread_keeps_its_number_and_no_other_thread_has_it_meanwhile() {
        let mine = thread_number();
        assert!(mine.is_some() && thread_number() == mine);
        let others = std::thread::spawn(thread_number).join().unwrap();
        assert!(others.is_some() && others != mine);
    }
}
