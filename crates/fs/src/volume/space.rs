//! Room of a volume: pages and inodes, exact at the limit and without a shared write far from it.
//!
//! `granted` counts what cores have taken from the pool; each core keeps a credit of what it took
//! and has not used. Used room is `granted` less all credits. When the pool cannot give, the
//! credits of all cores are called back, so that a request fails only if the room is not there.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use hearth_sync::spread::PerCore;

/// Credit that a core takes at once.
const BATCH: u64 = 256;

/// One countable resource with a limit.
pub(crate) struct Pool {
    limit: u64,
    /// Never above `limit`. Relaxed throughout: one counter, it orders nothing else.
    granted: AtomicU64,
    credit: PerCore<AtomicU64>,
}

/// Room that is taken but not yet used; what is left goes back on drop.
pub(crate) struct Reservation<'a> {
    pool: &'a Pool,
    left: u64,
}

impl Pool {
    pub fn new(limit: u64) -> Pool {
        Pool {
            limit,
            granted: AtomicU64::new(0),
            credit: PerCore::new(|_| AtomicU64::new(0)),
        }
    }

    /// Takes `amount`; `None` if there is no room for it.
    pub fn reserve(&self, amount: u64) -> Option<Reservation<'_>> {
        let own = self.credit.get();
        if !take(own, amount) && !self.refill(amount) && !self.recall(amount) {
            return None;
        }
        Some(Reservation {
            pool: self,
            left: amount,
        })
    }

    /// Gives back what was used.
    pub fn free(&self, amount: u64) {
        let own = self.credit.get();
        // Relaxed: see `granted`.
        let credit = own.fetch_add(amount, Ordering::Relaxed) + amount;
        if credit > 4 * BATCH && take(own, credit - BATCH) {
            self.granted.fetch_sub(credit - BATCH, Ordering::Relaxed);
        }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn used(&self) -> u64 {
        let credit: u64 = self.credit.iter().map(|c| c.load(Ordering::Relaxed)).sum();
        self.granted.load(Ordering::Relaxed).saturating_sub(credit)
    }

    /// Takes `amount` from the pool, and a batch of credit where it has that much.
    fn refill(&self, amount: u64) -> bool {
        if self.grant(amount.saturating_add(BATCH)) {
            self.credit.get().fetch_add(BATCH, Ordering::Relaxed);
            return true;
        }
        self.grant(amount)
    }

    /// Calls every core's credit back and tries once more.
    #[cold]
    fn recall(&self, amount: u64) -> bool {
        let called: u64 = self
            .credit
            .iter()
            .map(|c| c.swap(0, Ordering::Relaxed))
            .sum();
        self.granted.fetch_sub(called, Ordering::Relaxed);
        self.grant(amount)
    }

    fn grant(&self, amount: u64) -> bool {
        self.granted
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |granted| {
                granted.checked_add(amount).filter(|&sum| sum <= self.limit)
            })
            .is_ok()
    }
}

impl Reservation<'_> {
    /// Turns `amount` of the reservation into use.
    pub fn spend(&mut self, amount: u64) {
        debug_assert!(amount <= self.left, "more was used than reserved");
        self.left -= amount.min(self.left);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.pool.free(self.left);
        }
    }
}

fn take(credit: &AtomicU64, amount: u64) -> bool {
    // Relaxed: see `granted`.
    credit
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |c| {
            c.checked_sub(amount)
        })
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_reached_and_not_passed() {
        let pool = Pool::new(1000);
        let mut held = Vec::new();
        while let Some(mut room) = pool.reserve(7) {
            room.spend(7);
            held.push(room);
        }
        assert_eq!(held.len(), 1000 / 7);
        assert_eq!(pool.used(), 7 * held.len() as u64);
        let mut rest = pool.reserve(1000 % 7).expect("the rest fits");
        rest.spend(1000 % 7);
        assert!(pool.reserve(1).is_none());
        pool.free(1);
        assert!(pool.reserve(1).is_some());
    }

    #[test]
    fn what_was_not_spent_comes_back() {
        let pool = Pool::new(10);
        let mut room = pool.reserve(10).expect("empty pool");
        room.spend(4);
        drop(room);
        assert_eq!(pool.used(), 4);
    }

    #[test]
    fn threads_never_pass_the_limit_and_fill_it() {
        use hearth_sync::primitive::thread;
        let pool = Pool::new(5000);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(mut room) = pool.reserve(3) {
                        room.spend(3);
                        assert!(pool.granted.load(Ordering::Relaxed) <= 5000);
                    }
                });
            }
        });
        assert!(pool.used() > 5000 - 3, "used {}", pool.used());
    }
}
