//! CPU accounting: how much processor time a piece of work took.
//!
//! On a busy machine a thread loses its core in the middle of a task, often for longer than the
//! task takes. The tenant that happened to run then must not pay for it: weights would divide the
//! accidents of the kernel's scheduler instead of the core. The kernel knows how long a thread ran,
//! but reading that costs as much as a short task takes. So short work is charged by the clock, and
//! the kernel is asked after long work.

use hearth_sync::primitive::thread_time;

/// Work that takes longer may have lost its core.
const LONG_NS: u64 = 100_000;
/// Short pieces of work that are charged without reading the thread's time, at most. Time between
/// them counts for a long one that follows.
const SHORTS: u32 = 64;

/// The accounting of one thread, used by that thread only.
#[derive(Debug)]
pub struct CpuAccounting {
    /// Reads the processor time of the calling thread; returns `None` where only the clock counts.
    read: fn() -> Option<u64>,
    /// The thread's time when it was last read.
    last: Option<u64>,
    /// Nanoseconds charged by the clock since then.
    charged: u64,
    shorts: u32,
}

impl CpuAccounting {
    /// Returns accounting by the kernel's processor time of the calling thread.
    pub fn of_thread() -> CpuAccounting {
        CpuAccounting::new(thread_time)
    }

    /// Returns accounting by the clock alone.
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

    /// Returns the processor time of work that ends now and took `ns` nanoseconds by the clock:
    /// `ns` at most.
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
            // A time that went back belongs to another thread: the worker has moved.
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
    fn preempted_work_is_charged_its_processor_time_only() {
        let mut cpu_accounting = cpu_accounting();
        pass(300_000);
        assert_eq!(cpu_accounting.used(50_000_000), 300_000);
        pass(2_000_000);
        assert_eq!(cpu_accounting.used(2_000_000), 2_000_000);
    }

    #[test]
    fn short_work_charged_by_the_clock_is_not_charged_again() {
        let mut cpu_accounting = cpu_accounting();
        for _ in 0..10 {
            pass(20_000);
            assert_eq!(cpu_accounting.used(20_000), 20_000);
        }
        pass(400_000);
        assert_eq!(cpu_accounting.used(9_000_000), 400_000);
    }

    /// A thread does more than run tasks: the time between many short ones is charged to nobody.
    #[test]
    fn time_between_short_runs_is_not_charged_to_a_long_one() {
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
    fn the_charge_is_at_most_the_elapsed_time_and_equals_it_without_thread_time() {
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
