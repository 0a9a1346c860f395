//! The CPU time of a thread, and other clocks of the kernel.

/// The CPU time of the calling thread in nanoseconds: without the time in which it slept or was
/// preempted. A system call (200 ns). `None` where the system does not count it.
pub fn thread_time() -> Option<u64> {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The time of a clock in nanoseconds, see `clock_gettime(2)`; `None` where there is no such clock.
pub fn clock(id: libc::clockid_t) -> Option<u64> {
    // SAFETY: the call gets the address of a timespec to fill in.
    nanoseconds(|time| unsafe { libc::clock_gettime(id, time) })
}

/// The resolution of a clock in nanoseconds, see `clock_getres(2)`.
pub fn resolution(id: libc::clockid_t) -> Option<u64> {
    // Miri does not know the call.
    if cfg!(miri) {
        return None;
    }
    // SAFETY: as above.
    nanoseconds(|time| unsafe { libc::clock_getres(id, time) })
}

fn nanoseconds(ask: impl FnOnce(*mut libc::timespec) -> libc::c_int) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    (ask(&raw mut time) == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    #[cfg_attr(miri, ignore = "it has no such clock")]
    fn thread_time_counts_work_and_not_sleep() {
        let before = thread_time().unwrap();
        std::thread::sleep(Duration::from_millis(30));
        let slept = thread_time().unwrap() - before;
        assert!(slept < 20_000_000, "{slept} ns of 30 ms asleep");
        let (begin, before) = (Instant::now(), thread_time().unwrap());
        while thread_time().unwrap() - before < 5_000_000 {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "time stands still"
            );
        }
    }
}
