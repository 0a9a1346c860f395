//! The processor time of a thread.

use std::mem::MaybeUninit;

/// Nanoseconds that the calling thread has run on a processor: time in which it slept or others ran
/// is not in it. A system call (200 ns). `None` where the system does not count it.
pub fn thread_time() -> Option<u64> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call gets the address of a timespec to fill in.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    if failed != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, so it has filled it in.
    let time = unsafe { time.assume_init() };
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_sleeps_takes_no_time_and_one_that_works_does() {
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
