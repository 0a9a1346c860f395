//! Which accesses are counted: each, while there are few of them, and else a sample that counts for
//! all, so that recording takes less than a hundredth of what is recorded, however fast that is.

use ahash::RandomState;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::thread_local;
use std::cell::Cell;

/// Bits of a term that count the terms of one volume; above them, what tells volumes apart.
const COUNT_BITS: u32 = 20;

/// Whether accesses are counted, and the term in which threads let some of them pass.
pub(super) struct Terms {
    /// 0 while nothing is counted. Relaxed: an access beside a change may count or not.
    term: AtomicU64,
    /// Its first term; a random number, so that hardly two volumes have the same. If they had, a
    /// thread would let accesses to one pass that it drew for the other.
    first: u64,
}

/// What a thread has drawn: how many accesses it lets pass, and how many the next one stands for.
struct Lot {
    /// When and of which volume it was drawn.
    term: Cell<u64>,
    passes: Cell<u64>,
    weight: Cell<u64>,
    random: Cell<u64>,
}

thread_local! {
    static LOT: Lot = const {
        Lot {
            term: Cell::new(0),
            passes: Cell::new(0),
            weight: Cell::new(1),
            random: Cell::new(0x9E37_79B9_7F4A_7C15),
        }
    };
}

impl Terms {
    pub fn off() -> Terms {
        Terms {
            term: AtomicU64::new(0),
            first: RandomState::new().hash_one(0) << COUNT_BITS | 1,
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.term.load(Relaxed) != 0
    }

    /// Counts from now on, or no longer.
    pub fn switch(&self, on: bool) {
        match on {
            true if self.is_on() => (),
            true => self.term.store(self.first, Relaxed),
            false => self.term.store(0, Relaxed),
        }
    }

    /// What threads have drawn holds no more: each counts its next access. Says nothing while
    /// nothing is counted.
    pub fn renew(&self) {
        let term = self.term.load(Relaxed);
        if term != 0 {
            let count = (1 << COUNT_BITS) - 1;
            // Bit 0 stays: no term of a volume that counts is 0.
            let next = term & !count | term.wrapping_add(2) & count;
            // Fails beside a switch, which is a change of term itself.
            let _ = self.term.compare_exchange(term, next, Relaxed, Relaxed);
        }
    }

    /// Whether the access that happens now is not to be counted.
    #[inline(always)]
    pub fn pass(&self) -> bool {
        let term = self.term.load(Relaxed);
        term == 0 || LOT.with(|lot| lot.pass(term))
    }

    /// How many accesses the one stands for that [`Terms::pass`] has not let pass.
    pub fn weight(&self) -> u64 {
        LOT.with(|lot| match lot.term.get() == self.term.load(Relaxed) {
            true => lot.weight.get(),
            false => 1,
        })
    }

    /// From now on this thread counts one access in `weight`.
    pub fn draw(&self, weight: u64) {
        LOT.with(|lot| lot.draw(self.term.load(Relaxed), weight));
    }
}

impl Lot {
    #[inline(always)]
    fn pass(&self, term: u64) -> bool {
        let passes = self.passes.get();
        let passed = passes > 0 && self.term.get() == term;
        if passed {
            self.passes.set(passes - 1);
        }
        passed
    }

    /// The number of passes is random, so that no pattern of accesses escapes, and one less than
    /// the weight in the mean.
    fn draw(&self, term: u64, weight: u64) {
        let passes = if weight > 1 {
            let mut random = self.random.get();
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            self.random.set(random);
            random % (2 * weight - 1)
        } else {
            0
        };
        self.term.set(term);
        self.weight.set(weight);
        self.passes.set(passes);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Accesses counted and what they stand for, of `times`.
    fn count(terms: &Terms, times: u64, weight: u64) -> (u64, u64) {
        let (mut counted, mut sum) = (0, 0);
        for _ in 0..times {
            if !terms.pass() {
                counted += 1;
                sum += terms.weight();
                terms.draw(weight);
            }
        }
        (counted, sum)
    }

    fn on() -> Terms {
        let terms = Terms::off();
        terms.switch(true);
        terms
    }

    #[test]
    fn a_sample_stands_for_all() {
        let terms = on();
        assert_eq!(count(&terms, 1000, 1), (1000, 1000));
        let (counted, sum) = count(&terms, 1_000_000, 64);
        assert!(counted.abs_diff(1_000_000 / 64) < 1000, "{counted}");
        assert!(sum.abs_diff(1_000_000) < 50_000, "{sum}");
    }

    #[test]
    fn two_kinds_that_alternate_are_sampled_alike() {
        let terms = on();
        let mut sums = [0u64; 2];
        for access in 0..1_000_000 {
            if !terms.pass() {
                sums[access % 2] += terms.weight();
                terms.draw(16);
            }
        }
        for sum in sums {
            assert!(sum.abs_diff(500_000) < 25_000, "{sums:?}");
        }
    }

    #[test]
    fn what_was_drawn_ends_with_its_term_and_is_of_one_volume() {
        let (terms, other) = (on(), on());
        terms.draw(1 << 40);
        while !terms.pass() {
            terms.draw(1 << 40);
        }
        assert!(!other.pass(), "another volume");
        assert_eq!(other.weight(), 1);
        assert!(terms.pass());
        terms.renew();
        assert!(!terms.pass(), "a new term");
        assert_eq!(terms.weight(), 1);
        terms.switch(false);
        terms.renew();
        assert!(terms.pass() && !terms.is_on(), "nothing is counted");
    }
}
