//! How much processor time work took, of the time that passed.
//!
//! On a busy machine a thread loses its core in the middle of a task, often for longer than the
//! task takes. Who happened to run then must not pay for it: weights would divide the accidents of
//! the kernel's scheduler instead of the core. The kernel knows how long a thread ran, but asking
//! costs as much as a short task takes. So short work is charged by the clock, and the kernel is
//! asked after work that took long.

use hearth_sync::primitive::thread_time;

/// Work that takes longer may have lost its core.
const LONG_NS: u64 = 100_000;
/// So many short ones go without asking: what lies between them counts for a long one that follows.
const SHORTS: u32 = 64;

/// Of one thread, which is the only one to use it.
#[derive(Debug)]
pub struct CpuAccounting {
    /// Processor time of the calling thread; `None` where only the clock counts.
    read: fn() -> Option<u64>,
    /// What it was when it was last read.
    last: Option<u64>,
    /// Charged by the clock since.
    charged: u64,
    shorts: u32,
}

impl CpuAccounting {
    /// By the kernel's account of the calling thread.
    pub fn of_thread() -> CpuAccounting {
        CpuAccounting::new(thread_time)
    }

    /// By the clock alone.
    pub fn by_clock() -> CpuAccounting {
        CpuAccounting::new(|| None)
    }

    fn new(read: fn() -> Option<u64>) -> CpuAccounting {
        CpuAccounting {
            read,
            last: None,
            charged: 0,
            shorts: 0,
        }
    }

    /// How long work ran that ends now and took `ns` nanoseconds by the clock: never more.
    #[inline]
    pub fn used(&mut self, ns: u64) -> u64 {
        if ns < LONG_NS && self.shorts < SHORTS {
            self.charged += ns;
            self.shorts += 1;
            return ns;
        }
        self.ask(ns)
    }

    #[cold]
    fn ask(&mut self, ns: u64) -> u64 {
        let now = (self.read)();
        let (before, charged) = (self.last, self.charged);
        (self.last, self.charged, self.shorts) = (now, 0, 0);
        match (before, now) {
            // A worker that came to another thread has begun anew.
            (Some(before), Some(now)) if now >= before => {
                (now - before).saturating_sub(charged).min(ns)
            }
            _ => ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static TIME: Cell<u64> = const { Cell::new(1_000) };
    }

    fn pass(ns: u64) {
        TIME.set(TIME.get() + ns);
    }

    fn cpu_accounting() -> CpuAccounting {
        let mut cpu_accounting = CpuAccounting::new(|| Some(TIME.get()));
        assert_eq!(
            cpu_accounting.used(LONG_NS),
            LONG_NS,
            "nothing is known yet"
        );
        cpu_accounting
    }

    #[test]
    fn work_that_lost_its_core_pays_for_what_it_used() {
        let mut cpu_accounting = cpu_accounting();
        pass(300_000);
        assert_eq!(cpu_accounting.used(50_000_000), 300_000);
        pass(2_000_000);
        assert_eq!(cpu_accounting.used(2_000_000), 2_000_000);
    }

    #[test]
    fn what_short_work_was_charged_is_not_charged_again() {
        let mut cpu_accounting = cpu_accounting();
        for _ in 0..10 {
            pass(20_000);
            assert_eq!(cpu_accounting.used(20_000), 20_000);
        }
        pass(400_000);
        assert_eq!(cpu_accounting.used(9_000_000), 400_000);
    }

    /// A thread does more than its tasks: what lies between many of them is nobody's.
    #[test]
    fn what_lies_between_many_short_ones_is_not_charged_to_a_long_one() {
        let mut cpu_accounting = cpu_accounting();
        for _ in 0..1000 {
            pass(30_000);
            cpu_accounting.used(10_000);
        }
        pass(200_000);
        let most = 200_000 + u64::from(SHORTS) * 20_000;
        assert!((200_000..=most).contains(&cpu_accounting.used(50_000_000)));
    }

    #[test]
    fn never_more_than_by_the_clock_and_by_the_clock_where_nothing_else_is_known() {
        let mut cpu_accounting = cpu_accounting();
        pass(10_000_000);
        assert_eq!(cpu_accounting.used(LONG_NS), LONG_NS);
        TIME.set(5);
        assert_eq!(
            cpu_accounting.used(3 * LONG_NS),
            3 * LONG_NS,
            "another thread's time"
        );
        assert_eq!(CpuAccounting::by_clock().used(7 * LONG_NS), 7 * LONG_NS);
    }
}
