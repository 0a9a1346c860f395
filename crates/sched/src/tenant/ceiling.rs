//! A ceiling per second, kept by delay.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering};

/// So much may be used at once after a pause: longer than a busy machine keeps a thread waiting, or
/// the ceiling would never be reached there, and half a percent of ten seconds.
const BURST_NS: u64 = 50_000_000;
const SECOND_NS: u128 = 1_000_000_000;

/// A token bucket in one word: the time at which it is full again (GCRA).
#[derive(Debug)]
pub struct Ceiling {
    /// Units per second; 0 for no ceiling.
    rate: AtomicU64,
    full_at: AtomicU64,
}

impl Ceiling {
    /// No ceiling.
    pub fn none() -> Ceiling {
        Ceiling {
            rate: AtomicU64::new(0),
            full_at: AtomicU64::new(0),
        }
    }

    /// Sets the units per second.
    pub fn set(&self, rate: Option<u64>) {
        // Relaxed: in force soon; debt from before stays in nanoseconds and runs off.
        self.rate.store(rate.unwrap_or(0), Ordering::Relaxed);
    }

    /// The units per second.
    pub fn rate(&self) -> Option<u64> {
        // Relaxed: a single value.
        Some(self.rate.load(Ordering::Relaxed)).filter(|&rate| rate > 0)
    }

    /// Takes `amount`, at `now`; the time at which its user may go on.
    pub fn charge(&self, amount: u64, now: u64) -> u64 {
        let Some(rate) = self.rate().filter(|_| amount > 0) else {
            return now;
        };
        let cost = (u128::from(amount) * SECOND_NS).div_ceil(u128::from(rate));
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        // Relaxed: the word is the whole state, and the exchange makes turns of it.
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let begin = full_at.max(now);
            let next = begin.saturating_add(cost);
            let (set, failed) = (Ordering::Relaxed, Ordering::Relaxed);
            match self
                .full_at
                .compare_exchange_weak(full_at, next, set, failed)
            {
                Ok(_) => return begin.saturating_sub(BURST_NS).max(now),
                Err(other) => full_at = other,
            }
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    /// Who asks again as soon as it may, for `seconds`: how much it got.
    fn greedy(rate: u64, amount: u64, seconds: u64) -> u64 {
        let ceiling = Ceiling::none();
        ceiling.set(Some(rate));
        let (mut now, mut got) = (77, 0);
        while now < seconds * 1_000_000_000 {
            now = ceiling.charge(amount, now);
            got += amount;
        }
        got
    }

    #[test]
    fn a_thousand_a_second_are_a_thousand_a_second() {
        assert!((9_900..=10_100).contains(&greedy(1_000, 1, 10)));
        assert!((10..=12).contains(&greedy(1, 1, 10)));
        let bytes = greedy(200_000_000, 131_072, 10) as f64 / 2e9;
        assert!((0.99..=1.01).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_pause_saves_no_more_than_a_burst() {
        let ceiling = Ceiling::none();
        ceiling.set(Some(1_000));
        let now = 3_600_000_000_000;
        let at_once = (0..100)
            .take_while(|_| ceiling.charge(1, now) == now)
            .count();
        assert!((50..=51).contains(&at_once), "{at_once}");
    }

    #[test]
    fn who_is_kept_waiting_for_less_than_a_burst_loses_nothing() {
        let ceiling = Ceiling::none();
        ceiling.set(Some(1_000));
        let mut now = 77;
        for served in 1..=10_000 {
            now = ceiling.charge(1, now);
            if served % 50 == 0 {
                now += 40_000_000;
            }
        }
        let took = now as f64 / 1e9;
        assert!((9.9..=10.1).contains(&took), "{took} s");
    }

    #[test]
    fn without_a_ceiling_nothing_waits() {
        let ceiling = Ceiling::none();
        assert_eq!(ceiling.charge(u64::MAX, 5), 5);
        ceiling.set(Some(10));
        ceiling.charge(100, 5);
        ceiling.set(None);
        assert_eq!(ceiling.charge(100, 6), 6);
    }
}
