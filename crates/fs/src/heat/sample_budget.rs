//! The sample budget of a CPU: how much it records one by one before it samples, and how densely.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};

/// Most accesses that one recording may stand for.
pub(super) const MOST: u64 = 1024;
/// Least milliseconds of a period: half the time between two drains of the background work. An
/// earlier drain, for a report, ends no period.
pub(super) const PERIOD: u64 = 50;

/// Two token buckets: how much is recorded one by one, and how much of what is faster.
pub(super) struct BudgetRate {
    /// Capacity of the first, and what comes each second: who is slower is not sampled.
    pub burst: u64,
    pub exact: u64,
    /// Capacity of the second, and what comes each second.
    pub most: u64,
    pub per_second: u64,
    /// For each step beyond the budget, a recording stands for four times as many accesses.
    pub step: u64,
}

/// The budget of one CPU. Relaxed: a drain writes what the CPU reads as a hint.
pub(super) struct SampleBudget {
    /// Total number of recordings up to which `weight` holds.
    limit: AtomicU64,
    /// The number of accesses that one recording stands for: a power of 4.
    weight: AtomicU64,
    /// Accesses that all recordings stood for when this period began. Written by drains.
    stood: AtomicU64,
}

/// What a CPU has recorded so far.
#[derive(Clone, Copy)]
pub(super) struct RecordedCounts {
    pub times: u64,
    /// Accesses that the recordings stand for.
    pub stood: u64,
}

impl SampleBudget {
    pub fn full(rate: &BudgetRate) -> SampleBudget {
        SampleBudget {
            limit: AtomicU64::new(rate.burst),
            weight: AtomicU64::new(1),
            stood: AtomicU64::new(0),
        }
    }

    /// How many accesses the next recording should stand for after `times` recordings: 4 times as
    /// many beyond the limit, then 16, and so on up to [`MOST`].
    #[inline(always)]
    pub fn weight(&self, rate: &BudgetRate, times: u64) -> u64 {
        let weight = self.weight.load(Relaxed);
        match times.checked_sub(self.limit.load(Relaxed)) {
            None => weight,
            Some(more) => (weight << (2 + 2 * (more / rate.step)).min(10)).min(MOST),
        }
    }

    /// Whether less than half is left of what is recorded one by one.
    #[inline(always)]
    pub fn is_half_used(&self, rate: &BudgetRate, times: u64) -> bool {
        times.saturating_add(rate.burst / 2) > self.limit.load(Relaxed) && !self.is_sampled()
    }

    /// Ends a period of `millis`. The next one begins at the weight that would have made this one
    /// fit, and one by one if the speed allows. True if that is less than threads may have drawn.
    pub fn renew(&self, rate: &BudgetRate, recorded: RecordedCounts, millis: u64) -> bool {
        let reached = self.weight(rate, recorded.times);
        let left = self.limit.load(Relaxed).saturating_sub(recorded.times);
        let of = |per_second: u64| millis.saturating_mul(per_second) / 1000;
        let exact = of(rate.exact);
        let before = self.stood.swap(recorded.stood, Relaxed);
        let stood = recorded.stood.saturating_sub(before);
        let (next, allowed) = if reached == 1 {
            // The rest of the budget is for the rest of the burst.
            (1, left.saturating_add(exact).min(rate.burst))
        } else if stood <= exact {
            (1, rate.burst)
        } else {
            let allowed = left.saturating_add(of(rate.per_second)).min(rate.most);
            // At least 4: one by one would be more than the budget.
            (power_of_4(stood.div_ceil(allowed.max(1))).max(4), allowed)
        };
        self.limit.store(recorded.times + allowed, Relaxed);
        self.weight.store(next, Relaxed);
        next < reached
    }

    /// Whether the period began with sampling.
    pub fn is_sampled(&self) -> bool {
        self.weight.load(Relaxed) > 1
    }
}

/// The smallest power of 4 that is at least `n`, up to [`MOST`].
fn power_of_4(n: u64) -> u64 {
    let bits = n.clamp(1, MOST).next_power_of_two().trailing_zeros();
    1 << bits.next_multiple_of(2)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const RATE: BudgetRate = BudgetRate {
        burst: 10_000,
        exact: 30_000,
        most: 10_000,
        per_second: 5000,
        step: 100,
    };

    /// A CPU with a constant number of accesses in each period. Deterministic: each recording
    /// stands for as many accesses as the one before asked for.
    struct Cpu {
        budget: SampleBudget,
        recorded: RecordedCounts,
        next: u64,
    }

    impl Cpu {
        fn new() -> Cpu {
            Cpu {
                budget: SampleBudget::full(&RATE),
                recorded: RecordedCounts { times: 0, stood: 0 },
                next: 1,
            }
        }

        /// Returns the recordings, the accesses that they stand for, and whether draws ended.
        fn period(&mut self, accesses: u64, millis: u64) -> (u64, u64, bool) {
            let before = self.recorded;
            while self.recorded.stood - before.stood < accesses {
                self.recorded.times += 1;
                self.recorded.stood += self.next;
                self.next = self.budget.weight(&RATE, self.recorded.times);
            }
            let ended = self.budget.renew(&RATE, self.recorded, millis);
            if ended {
                self.next = 1;
            }
            let RecordedCounts { times, stood } = self.recorded;
            (times - before.times, stood - before.stood, ended)
        }
    }

    #[test]
    fn the_weight_is_the_next_power_of_4() {
        let of = [0, 1, 2, 4, 5, 16, 17, 65, 1024, 1025, u64::MAX].map(power_of_4);
        assert_eq!(of, [1, 1, 4, 4, 16, 16, 64, 256, 1024, 1024, 1024]);
    }

    #[test]
    fn a_burst_after_quiet_is_exact_across_the_end_of_a_period() {
        let mut cpu = Cpu::new();
        for accesses in [7000, 3000] {
            assert_eq!(cpu.period(accesses, 100), (accesses, accesses, false));
        }
        assert_eq!(cpu.period(0, 10_000), (0, 0, false));
        assert_eq!(cpu.period(9999, 100), (9999, 9999, false));
    }

    #[test]
    fn a_cpu_within_the_exact_speed_records_each_access() {
        for accesses in [0, 600, 3000] {
            let mut cpu = Cpu::new();
            for _ in 0..100 {
                assert_eq!(cpu.period(accesses, 100), (accesses, accesses, false));
            }
            // Faster for a while, then as before: exact again after one period.
            (0..10).for_each(|_| _ = cpu.period(50_000, 100));
            assert!(cpu.budget.is_sampled());
            assert!(cpu.period(accesses.min(1000), 100).2);
            assert_eq!(cpu.period(accesses, 100), (accesses, accesses, false));
        }
    }

    #[test]
    fn a_cpu_beyond_the_exact_speed_records_at_most_its_budget() {
        for accesses in [5000, 20_000, 100_000, 400_000] {
            let mut cpu = Cpu::new();
            (0..10).for_each(|_| _ = cpu.period(accesses, 100));
            let (mut times, mut stood) = (0, 0);
            for _ in 0..100 {
                let (more_times, more_stood, _) = cpu.period(accesses, 100);
                times += more_times;
                stood += more_stood;
            }
            // The budget at the beginning, and the steps of periods that were too fast.
            assert!(times <= 75_000, "{accesses}: {times}");
            assert!(times >= 12_000, "{accesses}: {times}");
            assert!(stood >= 100 * accesses && stood <= 101 * (accesses + MOST));
        }
    }

    /// At a constant speed hardly any epoch ends: each end makes every thread record one access.
    #[test]
    fn the_weight_is_constant_at_a_constant_speed() {
        let mut cpu = Cpu::new();
        (0..10).for_each(|_| _ = cpu.period(500_000, 100));
        for _ in 0..50 {
            let (times, _, ended) = cpu.period(500_000, 100);
            assert!(times <= 500 && !ended, "{times}");
        }
        assert!(cpu.budget.is_sampled());
        let (_, _, ended) = cpu.period(0, 100);
        assert!(ended && !cpu.budget.is_sampled(), "after a quiet period");
    }
}
