//! Processor time.

use rustix::time::{ClockId, clock_gettime};
use std::ops::{Add, Sub};
use std::time::Duration;

/// Seconds of processor time, of all cores together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    pub user: f64,
    /// In the kernel on their behalf.
    pub system: f64,
}

impl CpuTime {
    /// What all threads of this program have used so far.
    pub fn of_this_program() -> CpuTime {
        usage(libc::RUSAGE_SELF)
    }

    /// What all children that have ended and were waited for have used.
    pub fn of_children() -> CpuTime {
        usage(libc::RUSAGE_CHILDREN)
    }

    pub fn total(self) -> f64 {
        self.user + self.system
    }
}

impl Sub for CpuTime {
    type Output = CpuTime;

    fn sub(self, before: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user - before.user,
            system: self.system - before.system,
        }
    }
}

impl Add for CpuTime {
    type Output = CpuTime;

    fn add(self, more: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user + more.user,
            system: self.system + more.system,
        }
    }
}

/// Processor seconds of another process so far, user and system, of its threads that ended as well
/// (`clock_getcpuclockid(3)`: to the nanosecond, where `/proc` counts in hundredths of a second).
/// Nothing if there is no such process.
pub fn of_process(pid: u32) -> f64 {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both addresses live throughout the calls.
    let known = unsafe {
        libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    match known {
        true => time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
        false => 0.0,
    }
}

/// Processor time of the calling thread so far, to the nanosecond: `getrusage` shows a thread what
/// it had at the last tick.
pub fn of_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn usage(of: i32) -> CpuTime {
    // SAFETY: an all-zero usage is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives throughout the call.
    unsafe { libc::getrusage(of, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    CpuTime {
        user: seconds(usage.ru_utime),
        system: seconds(usage.ru_stime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let before = CpuTime::of_this_program();
        let begin = std::time::Instant::now();
        let mut sum = 0u64;
        while (CpuTime::of_this_program() - before).total() < 0.02 {
            sum = std::hint::black_box(sum + 1);
            assert!(begin.elapsed().as_secs() < 60, "the time stands still");
        }
        assert!(sum > 0);
    }

    #[test]
    fn the_time_of_a_thread_is_its_own_and_fine() {
        let before = of_thread();
        let other = std::thread::spawn(|| while of_thread().as_millis() < 20 {});
        other.join().unwrap();
        let used = of_thread() - before;
        assert!(used > Duration::ZERO && used.as_millis() < 20, "{used:?}");
    }

    #[test]
    fn the_time_of_a_process_is_what_it_used() {
        let own = || of_process(std::process::id());
        let before = (CpuTime::of_this_program().total(), own());
        while own() - before.1 < 0.02 {
            std::hint::spin_loop();
        }
        let used = CpuTime::of_this_program().total() - before.0;
        assert!((0.01..1.0).contains(&used), "{used}");
        // No kernel gives a process such a number.
        assert_eq!(of_process(1 << 23), 0.0);
    }
}
