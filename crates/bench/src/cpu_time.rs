//! Processor time.

use std::ops::{Add, Sub};

/// Seconds of processor time, of all cores together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// In programs.
    pub user: f64,
    /// In the kernel on their behalf.
    pub system: f64,
}

impl CpuTime {
    /// What all threads of this program have used so far.
    pub fn of_this_program() -> CpuTime {
        usage(libc::RUSAGE_SELF)
    }

    /// What the calling thread has used so far.
    pub fn of_this_thread() -> CpuTime {
        usage(libc::RUSAGE_THREAD)
    }

    /// What all children that have ended and were waited for have used.
    pub fn of_children() -> CpuTime {
        usage(libc::RUSAGE_CHILDREN)
    }

    /// User and system together.
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

/// Processor seconds of another process so far, user and system.
pub fn of_process(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // SAFETY: the call takes no pointer.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    ticks(&stat) / per_second as f64
}

/// The fields 14 and 15; the second one, a name in parentheses, may have blanks in it.
fn ticks(stat: &str) -> f64 {
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let fields = behind.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum()
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
    fn the_ticks_of_a_process_are_behind_its_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 1 0 0 0 40 2 0 0 20 0 1 0 1 1 1";
        assert_eq!(ticks(stat), 42.0);
        assert_eq!(ticks(""), 0.0);
        assert!(of_process(std::process::id()) >= 0.0);
    }
}
