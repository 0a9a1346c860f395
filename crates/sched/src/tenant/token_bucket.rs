//! A rate limit per second, kept by delay.

/// So much may be used at once after a pause: longer than a busy machine keeps a thread waiting, or
/// the rate limit would never be reached there, and half a percent of ten seconds.
const BURST_NS: u64 = 50_000_000;
const SECOND_NS: u128 = 1_000_000_000;

/// A token bucket: what is taken becomes debt, and debt runs off at the rate.
///
/// Debt is kept in units, not in time: with another rate the same debt runs off sooner or later.
/// So a charge has no fixed time at which its user may go on, but a place among the others, and
/// [`TokenBucket::admit_at`] says what the place means now. Whoever uses it holds the tenant's lock.
#[derive(Debug, Default)]
pub struct TokenBucket {
    /// Units per second.
    rate: Option<u64>,
    /// What had not run off at `at`: units times nanoseconds in a second.
    debt: u128,
    at: u64,
    /// Units taken while there was a rate limit, in a ring.
    taken: u64,
}

/// Where a charge stands in a rate limit: what was taken before it.
pub type Position = u64;

impl TokenBucket {
    /// Sets the units per second from `now` on. Without a rate limit there is no debt: who waits may
    /// go on, and a later rate limit begins with nothing taken.
    pub fn set(&mut self, rate: Option<u64>, now: u64) {
        self.leak(now);
        self.rate = rate;
        if rate.is_none() {
            self.debt = 0;
        }
    }

    /// The units per second.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Takes `amount`, at `now`; its place, unless there is nothing to wait for.
    pub fn charge(&mut self, amount: u64, now: u64) -> Option<Position> {
        self.rate.filter(|_| amount > 0)?;
        self.leak(now);
        let position = self.taken;
        self.taken = self.taken.wrapping_add(amount);
        self.debt = self.debt.saturating_add(u128::from(amount) * SECOND_NS);
        Some(position)
    }

    /// The time at which the one at `position` may go on, as it is at `now`.
    pub fn admit_at(&mut self, position: Position, now: u64) -> u64 {
        self.leak(now);
        let Some(rate) = self.rate else { return now };
        let behind = u128::from(self.taken.wrapping_sub(position)) * SECOND_NS;
        let ahead = self.debt.saturating_sub(behind).div_ceil(u128::from(rate));
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        let free = self.at.saturating_add(ahead);
        free.saturating_sub(BURST_NS).max(now)
    }

    /// Lets run off what has since the last look.
    fn leak(&mut self, now: u64) {
        // Who locks later may have read the clock earlier.
        let time = now.saturating_sub(self.at);
        let rate = self.rate.unwrap_or_default();
        let off = u128::from(rate) * u128::from(time);
        self.debt = self.debt.saturating_sub(off);
        self.at = self.at.max(now);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    fn with_rate(rate: u64) -> TokenBucket {
        let mut bucket = TokenBucket::default();
        bucket.set(Some(rate), 0);
        bucket
    }

    /// Takes so much; when that may go on.
    fn take(bucket: &mut TokenBucket, amount: u64, now: u64) -> u64 {
        let position = bucket.charge(amount, now);
        position.map_or(now, |position| bucket.admit_at(position, now))
    }

    /// Who asks again as soon as it may, for `seconds`: how much it got.
    fn greedy(rate: u64, amount: u64, seconds: u64) -> u64 {
        let mut bucket = with_rate(rate);
        let (mut now, mut got) = (77, 0);
        while now < seconds * 1_000_000_000 {
            now = take(&mut bucket, amount, now);
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
        let mut bucket = with_rate(1_000);
        let now = 3_600_000_000_000;
        let at_once = (0..100)
            .take_while(|_| take(&mut bucket, 1, now) == now)
            .count();
        assert!((50..=51).contains(&at_once), "{at_once}");
    }

    #[test]
    fn who_is_kept_waiting_for_less_than_a_burst_loses_nothing() {
        let mut bucket = with_rate(1_000);
        let mut now = 77;
        for served in 1..=10_000 {
            now = take(&mut bucket, 1, now);
            if served % 50 == 0 {
                now += 40_000_000;
            }
        }
        let took = now as f64 / 1e9;
        assert!((9.9..=10.1).contains(&took), "{took} s");
    }

    #[test]
    fn without_a_ceiling_nothing_waits() {
        let mut bucket = TokenBucket::default();
        assert_eq!(bucket.charge(u64::MAX, 5), None);
        bucket.set(Some(10), 5);
        take(&mut bucket, 100, 5);
        bucket.set(None, 5);
        assert_eq!(bucket.charge(100, 6), None);
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn debt_of_one_rate_runs_off_at_the_next() {
        let mut bucket = with_rate(1);
        assert_eq!(take(&mut bucket, 1 << 20, 0), 0);
        let position = bucket.charge(1, 0).unwrap();
        assert_eq!(bucket.admit_at(position, 0), (1 << 20) * S - BURST_NS);
        // A mebibyte of which 76 bytes have run off, at a million a second.
        bucket.set(Some(1_000_000), 76 * S);
        assert_eq!(
            bucket.admit_at(position, 76 * S),
            77 * S + 48_500_000 - BURST_NS
        );
        bucket.set(Some(200_000_000), 76 * S);
        assert_eq!(bucket.admit_at(position, 76 * S), 76 * S);
        // Lower again: what is left is the same number of bytes.
        bucket.set(Some(1_000_000), 76 * S);
        assert_eq!(
            bucket.admit_at(position, 76 * S),
            77 * S + 48_500_000 - BURST_NS
        );
    }

    #[test]
    fn a_ceiling_that_is_lifted_leaves_no_debt() {
        let mut bucket = with_rate(1);
        let positions = [(); 3].map(|()| bucket.charge(1 << 20, 0).unwrap());
        bucket.set(None, S);
        assert!(
            positions
                .iter()
                .all(|&position| bucket.admit_at(position, S) == S)
        );
        bucket.set(Some(1), S);
        assert_eq!(take(&mut bucket, 1, S), S);
        // Who waited for the old rate limit does not wait for what the new one delays.
        assert!(take(&mut bucket, 1, S) > S);
        assert!(
            positions
                .iter()
                .all(|&position| bucket.admit_at(position, S) == S)
        );
    }

    #[test]
    fn a_charge_is_not_delayed_by_those_behind_it() {
        let mut bucket = with_rate(1_000);
        take(&mut bucket, 1_000, 0);
        let position = bucket.charge(10, 0).unwrap();
        let before = bucket.admit_at(position, 0);
        for now in 0..100 {
            take(&mut bucket, 1_000_000, now * 10_000_000);
            assert_eq!(bucket.admit_at(position, 0), before);
        }
        // A pause in which everything ran off, then others.
        let later = 1 << 60;
        take(&mut bucket, 1_000_000, later);
        assert_eq!(bucket.admit_at(position, later), later);
    }

    #[test]
    fn the_largest_amounts_do_not_overflow() {
        let mut bucket = with_rate(1);
        for _ in 0..10 {
            take(&mut bucket, u64::MAX, 0);
        }
        assert!(take(&mut bucket, 1, 0) > u64::MAX / 2);
        bucket.set(Some(u64::MAX), u64::MAX);
        bucket.set(None, u64::MAX);
        assert_eq!(take(&mut bucket, 1, u64::MAX), u64::MAX);
    }
}
