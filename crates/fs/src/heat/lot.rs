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
    /// How many terms there were. Relaxed: only that each has another number counts.
    count: AtomicU64,
    /// A random number, so that hardly two volumes have the same terms. If they had, a thread would
    /// let accesses to one pass that it drew for the other.
    volume: u64,
}

/// A term of a volume whose accesses are counted; never 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Term(u64);

/// What a thread has drawn: how many accesses it lets pass, and how many the next one stands for.
struct Lot {
    /// When and of which volume it was drawn.
    term: Cell<u64>,
    passes: Cell<u64>,
    weight: Cell<u64>,
    /// 0 before the first draw.
    random: Cell<u64>,
}

thread_local! {
    static LOT: Lot = const {
        Lot {
            term: Cell::new(0),
            passes: Cell::new(0),
            weight: Cell::new(1),
            random: Cell::new(0),
        }
    };
}

impl Terms {
    pub fn off() -> Terms {
        Terms {
            term: AtomicU64::new(0),
            count: AtomicU64::new(0),
            volume: RandomState::new().hash_one(0) << COUNT_BITS,
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.term.load(Relaxed) != 0
    }

    /// Counts from now on, or no longer.
    pub fn switch(&self, on: bool) {
        if on != self.is_on() {
            self.term.store(if on { self.next() } else { 0 }, Relaxed);
        }
    }

    /// What threads have drawn holds no more: each counts its next access. Says nothing while
    /// nothing is counted.
    pub fn renew(&self) {
        let term = self.term.load(Relaxed);
        if term != 0 {
            // Fails beside a switch, which is a change of term itself.
            let next = self.next();
            let _ = self.term.compare_exchange(term, next, Relaxed, Relaxed);
        }
    }

    /// The term, if the access that happens now is to be counted.
    #[inline(always)]
    pub fn counts(&self) -> Option<Term> {
        let term = self.term.load(Relaxed);
        // Nothing is drawn in the term 0, so that a pass needs one question less.
        let passes = LOT.with(|lot| lot.pass(term));
        (!passes && term != 0).then_some(Term(term))
    }

    fn next(&self) -> u64 {
        let count = self.count.fetch_add(1, Relaxed) & ((1 << (COUNT_BITS - 1)) - 1);
        self.volume | count << 1 | 1
    }
}

impl Term {
    /// How many accesses the one stands for that is counted now.
    pub fn weight(self) -> u64 {
        LOT.with(|lot| match lot.term.get() == self.0 {
            true => lot.weight.get(),
            false => 1,
        })
    }

    /// In this term, this thread counts one access in `weight` from now on.
    pub fn draw(self, weight: u64) {
        LOT.with(|lot| lot.draw(self.0, weight));
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

    fn draw(&self, term: u64, weight: u64) {
        let passes = if weight > 1 { self.passes(weight) } else { 0 };
        self.term.set(term);
        self.weight.set(weight);
        self.passes.set(passes);
    }

    /// How many pass before one counts for `weight`: as many as if each had one chance in `weight`
    /// to count. So no pattern of accesses escapes, and a draw that ends early with its term says
    /// nothing of those to come.
    fn passes(&self, weight: u64) -> u64 {
        let mut random = match self.random.get() {
            0 => RandomState::new().hash_one(0) | 1,
            random => random,
        };
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        // In (0, 1], so that its logarithm is finite.
        let share = ((random >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (share.ln() / (-1.0 / weight as f64).ln_1p()) as u64
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Accesses counted and what they stand for, of `times`.
    fn count(terms: &Terms, times: u64, weight: u64) -> (u64, u64) {
        let (mut counted, mut sum) = (0, 0);
        for _ in 0..times {
            if let Some(term) = terms.counts() {
                counted += 1;
                sum += term.weight();
                term.draw(weight);
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
        let (counted, sum) = count(&terms, 4_000_000, 64);
        assert!(counted.abs_diff(4_000_000 / 64) < 2000, "{counted}");
        assert!(sum.abs_diff(4_000_000) < 130_000, "{sum}");
    }

    #[test]
    fn two_kinds_that_alternate_are_sampled_alike() {
        let terms = on();
        let mut sums = [0u64; 2];
        for access in 0..4_000_000 {
            if let Some(term) = terms.counts() {
                sums[access % 2] += term.weight();
                term.draw(16);
            }
        }
        for sum in sums {
            assert!(sum.abs_diff(2_000_000) < 60_000, "{sums:?}");
        }
    }

    /// Once, who ended a draw early lost up to half of what it stood for.
    #[test]
    fn draws_that_end_early_cost_nothing() {
        let terms = on();
        let (runs, length) = (40_000, 50);
        let mut sum = 0;
        for _ in 0..runs {
            terms.renew();
            for access in 0..length {
                if let Some(term) = terms.counts() {
                    // The first of a term counts for itself.
                    sum += if access == 0 { 1 } else { term.weight() };
                    term.draw(256);
                }
            }
        }
        let all: u64 = runs * length;
        assert!(sum.abs_diff(all) < all / 20, "{sum} of {all}");
    }

    #[test]
    fn what_was_drawn_ends_with_its_term_and_is_of_one_volume() {
        let (terms, other) = (on(), on());
        let pass = |terms: &Terms| terms.counts().is_none();
        while !pass(&terms) {
            terms
                .counts()
                .into_iter()
                .for_each(|term| term.draw(1 << 40));
        }
        assert!(!pass(&other), "another volume");
        assert!(other.counts().is_some_and(|term| term.weight() == 1));
        assert!(pass(&terms));
        terms.renew();
        assert!(terms.counts().is_some_and(|term| term.weight() == 1));
        while !pass(&terms) {
            terms
                .counts()
                .into_iter()
                .for_each(|term| term.draw(1 << 40));
        }
        terms.switch(false);
        terms.renew();
        assert!(pass(&terms) && !terms.is_on(), "nothing is counted");
        terms.switch(true);
        assert!(!pass(&terms), "on again is a new term");
    }
}
