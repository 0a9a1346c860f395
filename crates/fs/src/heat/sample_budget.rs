//! How much a core records one by one before it is a sample, and of how many accesses.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};

/// Most accesses that one recording stands for.
pub(super) const MOST: u64 = 1024;
/// Milliseconds of a period, at the least: half of those between two drains of the background. A
/// drain that comes earlier, for somebody who asks, ends none.
pub(super) const PERIOD: u64 = 50;

/// What may be recorded.
pub(super) struct BudgetRate {
    /// What gathers while little is recorded.
    pub most: u64,
    pub per_second: u64,
    /// Each so many beyond what there is, a recording stands for four times as many.
    pub step: u64,
}

/// What a core has left of an allowance. Relaxed: a drain writes what the core reads as a hint.
pub(super) struct SampleBudget {
    /// How much may have been recorded, since the beginning, at the weight below.
    limit: AtomicU64,
    /// How many accesses one recording stands for: a power of 4.
    weight: AtomicU64,
    /// Accesses that all recordings stood for when this period began. Of drain.
    stood: AtomicU64,
}

/// What a core has recorded since the beginning.
#[derive(Clone, Copy)]
pub(super) struct RecordedCounts {
    pub times: u64,
    /// Accesses that this stands for.
    pub stood: u64,
}

impl SampleBudget {
    pub fn full(allowance: &BudgetRate) -> SampleBudget {
        SampleBudget {
            limit: AtomicU64::new(allowance.most),
            weight: AtomicU64::new(1),
            stood: AtomicU64::new(0),
        }
    }

    /// How many accesses the next recording should stand for, after so many: beyond the limit 4
    /// times as many as before, 16, and so on up to [`MOST`].
    #[inline(always)]
    pub fn weight(&self, allowance: &BudgetRate, times: u64) -> u64 {
        let weight = self.weight.load(Relaxed);
        match times.checked_sub(self.limit.load(Relaxed)) {
            None => weight,
            Some(more) => (weight << (2 + 2 * (more / allowance.step)).min(10)).min(MOST),
        }
    }

    /// A period of `millis` is over. The next one begins at the weight that would have made this
    /// one fit. Whether that is less than threads may have drawn.
    pub fn renew(&self, allowance: &BudgetRate, recorded: RecordedCounts, millis: u64) -> bool {
        let reached = self.weight(allowance, recorded.times);
        let left = self.limit.load(Relaxed).saturating_sub(recorded.times);
        let gained = millis.saturating_mul(allowance.per_second) / 1000;
        let allowed = left.saturating_add(gained).min(allowance.most);
        let before = self.stood.swap(recorded.stood, Relaxed);
        let stood = recorded.stood.saturating_sub(before);
        let next = match reached {
            // What is left of a burst's allowance is for the rest of the burst.
            1 => 1,
            _ => power_of_4(stood.div_ceil(allowed.max(1))),
        };
        self.limit.store(recorded.times + allowed, Relaxed);
        self.weight.store(next, Relaxed);
        next < reached
    }

    /// Whether the period began with a sample.
    pub fn is_sampled(&self) -> bool {
        self.weight.load(Relaxed) > 1
    }
}

/// The smallest one that is not below `n`, up to [`MOST`].
fn power_of_4(n: u64) -> u64 {
    let bits = n.clamp(1, MOST).next_power_of_two().trailing_zeros();
    1 << bits.next_multiple_of(2)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const ALLOWANCE: BudgetRate = BudgetRate {
        most: 10_000,
        per_second: 5000,
        step: 100,
    };

    /// A core that does so many accesses in each period of 100 ms. Without chance: each recording
    /// stands for what the one before asked for.
    struct Core {
        budget: SampleBudget,
        recorded: RecordedCounts,
        next: u64,
    }

    impl Core {
        fn new() -> Core {
            Core {
                budget: SampleBudget::full(&ALLOWANCE),
                recorded: RecordedCounts { times: 0, stood: 0 },
                next: 1,
            }
        }

        /// Answers how much was recorded, by itself and for how many, and whether draws ended.
        fn period(&mut self, accesses: u64, millis: u64) -> (u64, u64, bool) {
            let before = self.recorded;
            while self.recorded.stood - before.stood < accesses {
                self.recorded.times += 1;
                self.recorded.stood += self.next;
                self.next = self.budget.weight(&ALLOWANCE, self.recorded.times);
            }
            let ended = self.budget.renew(&ALLOWANCE, self.recorded, millis);
            if ended {
                self.next = 1;
            }
            let RecordedCounts { times, stood } = self.recorded;
            (times - before.times, stood - before.stood, ended)
        }
    }

    #[test]
    fn powers_of_4_hold_what_they_are_to() {
        let of = [0, 1, 2, 4, 5, 16, 17, 65, 1024, 1025, u64::MAX].map(power_of_4);
        assert_eq!(of, [1, 1, 4, 4, 16, 16, 64, 256, 1024, 1024, 1024]);
    }

    #[test]
    fn a_burst_after_quiet_is_exact_also_where_it_goes_on_in_the_next_period() {
        let mut core = Core::new();
        for accesses in [7000, 3000] {
            assert_eq!(core.period(accesses, 100), (accesses, accesses, false));
        }
        assert_eq!(core.period(0, 10_000), (0, 0, false));
        assert_eq!(core.period(9999, 100), (9999, 9999, false));
    }

    #[test]
    fn what_a_core_records_is_its_allowance_however_fast_it_is() {
        for accesses in [600, 3000, 20_000, 100_000, 400_000] {
            let mut core = Core::new();
            (0..10).for_each(|_| _ = core.period(accesses, 100));
            let (mut times, mut stood) = (0, 0);
            for _ in 0..100 {
                let (more_times, more_stood, _) = core.period(accesses, 100);
                times += more_times;
                stood += more_stood;
            }
            // What was left when it began, and the steps of periods that were too fast.
            assert!(times <= 75_000, "{accesses}: {times}");
            assert!(times >= 20_000, "{accesses}: {times}");
            assert!(stood >= 100 * accesses && stood <= 101 * (accesses + MOST));
        }
    }

    /// At the same speed hardly any draw ends: each end makes every thread record one access.
    #[test]
    fn the_weight_stays_while_the_speed_does() {
        let mut core = Core::new();
        (0..10).for_each(|_| _ = core.period(500_000, 100));
        for _ in 0..50 {
            let (times, _, ended) = core.period(500_000, 100);
            assert!(times <= 500 && !ended, "{times}");
        }
        assert!(core.budget.is_sampled());
        let (_, _, ended) = core.period(0, 100);
        assert!(ended && !core.budget.is_sampled(), "after a quiet period");
    }
}
