//! A rate limit per second, enforced by delay.

/// What may be used at once after a pause. It is longer than a busy machine keeps a thread waiting,
/// else the limit would never be reached there. It is half a percent of ten seconds.
const BURST_NS: u64 = 50_000_000;
const SECOND_NS: u128 = 1_000_000_000;

/// A token bucket: a charge becomes debt, and debt drains at the rate.
///
/// Debt is kept in units, not in time: at another rate the same debt drains sooner or later. So a
/// charge has no fixed time of admission but a position among the others, and
/// [`TokenBucket::admit_at`] returns what the position means now. The tenant's lock protects it.
#[derive(Debug, Default)]
pub struct TokenBucket {
    /// Units per second.
    rate: Option<u64>,
    /// Debt at the time `at`: units times nanoseconds in a second.
    debt: u128,
    at: u64,
    /// Units charged while there was a limit; it wraps.
    taken: u64,
}

/// The position of a charge in a token bucket: the units charged before it.
pub type Position = u64;

impl TokenBucket {
    /// Sets the units per second from `now` on. Without a limit there is no debt: waiters may
    /// continue, and a later limit begins with none.
    pub fn set(&mut self, rate: Option<u64>, now: u64) {
        self.leak(now);
        self.rate = rate;
        if rate.is_none() {
            self.debt = 0;
        }
    }

    /// Returns the units per second.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Charges `amount` at `now`. Returns its position, or `None` if there is no limit.
    pub fn charge(&mut self, amount: u64, now: u64) -> Option<Position> {
        self.rate.filter(|_| amount > 0)?;
        self.leak(now);
        let position = self.taken;
        self.taken = self.taken.wrapping_add(amount);
        self.debt = self.debt.saturating_add(u128::from(amount) * SECOND_NS);
        Some(position)
    }

    /// Returns the time at which the charge at `position` is admitted, as of `now`.
    pub fn admit_at(&mut self, position: Position, now: u64) -> u64 {
        self.leak(now);
        let Some(rate) = self.rate else { return now };
        let behind = u128::from(self.taken.wrapping_sub(position)) * SECOND_NS;
        let ahead = self.debt.saturating_sub(behind).div_ceil(u128::from(rate));
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        let free = self.at.saturating_add(ahead);
        free.saturating_sub(BURST_NS).max(now)
    }

    /// Drains the debt up to `now`.
    fn leak(&mut self, now: u64) {
        // A thread that locks later may have read the clock earlier.
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

    /// Charges `amount` and returns when it is admitted.
    fn take(bucket: &mut TokenBucket, amount: u64, now: u64) -> u64 {
        let position = bucket.charge(amount, now);
        position.map_or(now, |position| bucket.admit_at(position, now))
    }

    /// Returns how much a caller gets in `seconds` that asks again as soon as it is admitted.
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
    fn a_pause_saves_at_most_one_burst() {
        let mut bucket = with_rate(1_000);
        let now = 3_600_000_000_000;
        let at_once = (0..100)
            .take_while(|_| take(&mut bucket, 1, now) == now)
            .count();
        assert!((50..=51).contains(&at_once), "{at_once}");
    }

    #[test]
    fn delays_shorter_than_a_burst_lose_no_throughput() {
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
    fn without_a_rate_nothing_waits() {
        let mut bucket = TokenBucket::default();
        assert_eq!(bucket.charge(u64::MAX, 5), None);
        bucket.set(Some(10), 5);
        take(&mut bucket, 100, 5);
        bucket.set(None, 5);
        assert_eq!(bucket.charge(100, 6), None);
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn debt_drains_at_the_new_rate_after_a_change() {
        let mut bucket = with_rate(1);
        assert_eq!(take(&mut bucket, 1 << 20, 0), 0);
        let position = bucket.charge(1, 0).unwrap();
        assert_eq!(bucket.admit_at(position, 0), (1 << 20) * S - BURST_NS);
        // A mebibyte, of which 76 bytes have drained, at a million a second.
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
    fn removing_the_rate_clears_the_debt() {
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
        // A waiter of the old limit does not wait for charges under the new one.
        assert!(take(&mut bucket, 1, S) > S);
        assert!(
            positions
                .iter()
                .all(|&position| bucket.admit_at(position, S) == S)
        );
    }

    #[test]
    fn a_charge_is_not_delayed_by_later_ones() {
        let mut bucket = with_rate(1_000);
        take(&mut bucket, 1_000, 0);
        let position = bucket.charge(10, 0).unwrap();
        let before = bucket.admit_at(position, 0);
        for now in 0..100 {
            take(&mut bucket, 1_000_000, now * 10_000_000);
            assert_eq!(bucket.admit_at(position, 0), before);
        }
        // A pause in which all debt drained, then other charges.
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
