//! A ceiling per second, kept by delay.

/// So much may be used at once after a pause: longer than a busy machine keeps a thread waiting, or
/// the ceiling would never be reached there, and half a percent of ten seconds.
const BURST_NS: u64 = 50_000_000;
const SECOND_NS: u128 = 1_000_000_000;

/// A token bucket: what is taken becomes debt, and debt runs off at the rate.
///
/// Debt is kept in units, not in time: with another rate the same debt runs off sooner or later.
/// So a charge has no fixed time at which its user may go on, but a place among the others, and
/// [`Ceiling::go`] says what the place means now. Whoever uses it holds the tenant's lock.
#[derive(Debug, Default)]
pub struct Ceiling {
    /// Units per second.
    rate: Option<u64>,
    /// What had not run off at `at`: units times nanoseconds in a second.
    debt: u128,
    at: u64,
    /// Units taken while there was a ceiling, in a ring.
    taken: u64,
}

/// Where a charge stands in a ceiling: what was taken before it.
pub type Place = u64;

impl Ceiling {
    /// Sets the units per second from `now` on. Without a ceiling there is no debt: who waits may
    /// go on, and a later ceiling begins with nothing taken.
    pub fn set(&mut self, rate: Option<u64>, now: u64) {
        self.settle(now);
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
    pub fn charge(&mut self, amount: u64, now: u64) -> Option<Place> {
        self.rate.filter(|_| amount > 0)?;
        self.settle(now);
        let place = self.taken;
        self.taken = self.taken.wrapping_add(amount);
        self.debt = self.debt.saturating_add(u128::from(amount) * SECOND_NS);
        Some(place)
    }

    /// The time at which the one at `place` may go on, as it is at `now`.
    pub fn go(&mut self, place: Place, now: u64) -> u64 {
        self.settle(now);
        let Some(rate) = self.rate else { return now };
        let behind = u128::from(self.taken.wrapping_sub(place)) * SECOND_NS;
        let ahead = self.debt.saturating_sub(behind).div_ceil(u128::from(rate));
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        let free = self.at.saturating_add(ahead);
        free.saturating_sub(BURST_NS).max(now)
    }

    /// Lets run off what has since the last look.
    fn settle(&mut self, now: u64) {
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

    fn with(rate: u64) -> Ceiling {
        let mut ceiling = Ceiling::default();
        ceiling.set(Some(rate), 0);
        ceiling
    }

    /// Takes so much; when that may go on.
    fn take(ceiling: &mut Ceiling, amount: u64, now: u64) -> u64 {
        let place = ceiling.charge(amount, now);
        place.map_or(now, |place| ceiling.go(place, now))
    }

    /// Who asks again as soon as it may, for `seconds`: how much it got.
    fn greedy(rate: u64, amount: u64, seconds: u64) -> u64 {
        let mut ceiling = with(rate);
        let (mut now, mut got) = (77, 0);
        while now < seconds * 1_000_000_000 {
            now = take(&mut ceiling, amount, now);
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
        let mut ceiling = with(1_000);
        let now = 3_600_000_000_000;
        let at_once = (0..100)
            .take_while(|_| take(&mut ceiling, 1, now) == now)
            .count();
        assert!((50..=51).contains(&at_once), "{at_once}");
    }

    #[test]
    fn who_is_kept_waiting_for_less_than_a_burst_loses_nothing() {
        let mut ceiling = with(1_000);
        let mut now = 77;
        for served in 1..=10_000 {
            now = take(&mut ceiling, 1, now);
            if served % 50 == 0 {
                now += 40_000_000;
            }
        }
        let took = now as f64 / 1e9;
        assert!((9.9..=10.1).contains(&took), "{took} s");
    }

    #[test]
    fn without_a_ceiling_nothing_waits() {
        let mut ceiling = Ceiling::default();
        assert_eq!(ceiling.charge(u64::MAX, 5), None);
        ceiling.set(Some(10), 5);
        take(&mut ceiling, 100, 5);
        ceiling.set(None, 5);
        assert_eq!(ceiling.charge(100, 6), None);
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn debt_of_one_rate_runs_off_at_the_next() {
        let mut ceiling = with(1);
        assert_eq!(take(&mut ceiling, 1 << 20, 0), 0);
        let place = ceiling.charge(1, 0).unwrap();
        assert_eq!(ceiling.go(place, 0), (1 << 20) * S - BURST_NS);
        // A mebibyte of which 76 bytes have run off, at a million a second.
        ceiling.set(Some(1_000_000), 76 * S);
        assert_eq!(ceiling.go(place, 76 * S), 77 * S + 48_500_000 - BURST_NS);
        ceiling.set(Some(200_000_000), 76 * S);
        assert_eq!(ceiling.go(place, 76 * S), 76 * S);
        // Lower again: what is left is the same number of bytes.
        ceiling.set(Some(1_000_000), 76 * S);
        assert_eq!(ceiling.go(place, 76 * S), 77 * S + 48_500_000 - BURST_NS);
    }

    #[test]
    fn a_ceiling_that_is_lifted_leaves_no_debt() {
        let mut ceiling = with(1);
        let places = [(); 3].map(|()| ceiling.charge(1 << 20, 0).unwrap());
        ceiling.set(None, S);
        assert!(places.iter().all(|&place| ceiling.go(place, S) == S));
        ceiling.set(Some(1), S);
        assert_eq!(take(&mut ceiling, 1, S), S);
        // Who waited for the old ceiling does not wait for what the new one delays.
        assert!(take(&mut ceiling, 1, S) > S);
        assert!(places.iter().all(|&place| ceiling.go(place, S) == S));
    }

    #[test]
    fn a_charge_is_not_delayed_by_those_behind_it() {
        let mut ceiling = with(1_000);
        take(&mut ceiling, 1_000, 0);
        let place = ceiling.charge(10, 0).unwrap();
        let before = ceiling.go(place, 0);
        for now in 0..100 {
            take(&mut ceiling, 1_000_000, now * 10_000_000);
            assert_eq!(ceiling.go(place, 0), before);
        }
        // A pause in which everything ran off, then others.
        let later = 1 << 60;
        take(&mut ceiling, 1_000_000, later);
        assert_eq!(ceiling.go(place, later), later);
    }

    #[test]
    fn the_largest_amounts_do_not_overflow() {
        let mut ceiling = with(1);
        for _ in 0..10 {
            take(&mut ceiling, u64::MAX, 0);
        }
        assert!(take(&mut ceiling, 1, 0) > u64::MAX / 2);
        ceiling.set(Some(u64::MAX), u64::MAX);
        ceiling.set(None, u64::MAX);
        assert_eq!(take(&mut ceiling, 1, u64::MAX), u64::MAX);
    }
}
