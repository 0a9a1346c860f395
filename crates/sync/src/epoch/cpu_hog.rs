//! For tests: threads that want the core which another one has.

use crate::primitive::atomic::{AtomicBool, Ordering};
use crate::primitive::{self, Arc, thread};
use std::time::Duration;

/// How long they rest, before they look whether to go on.
pub(super) const REST: Duration = Duration::from_millis(1);

/// Three threads on one core. Dropped, they end.
pub(super) struct CpuHog {
    spinning: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl CpuHog {
    /// On the core that the calling thread is on, and stays on from now; they rest.
    pub fn here() -> CpuHog {
        // SAFETY: the set is plain data, the number is inside, the call gets its true size.
        unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(primitive::cpu(), &mut one);
            let done = libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
            assert_eq!(done, 0);
        }
        let (spinning, stop) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let one = || {
            let (spinning, stop) = (spinning.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                while !AtomicBool::load(&stop, Ordering::Relaxed) {
                    match spinning.load(Ordering::Relaxed) {
                        true => std::hint::spin_loop(),
                        false => thread::sleep(REST),
                    }
                }
            })
        };
        let threads = (0..3).map(|_| one()).collect();
        CpuHog {
            spinning,
            stop,
            threads,
        }
    }

    /// None of them gives the core away from now on, or all of them rest.
    pub fn spin(&self, spinning: bool) {
        self.spinning.store(spinning, Ordering::Relaxed);
    }
}

impl Drop for CpuHog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("it only spins");
        }
    }
}

/// Times that the calling thread lost its core while it could have gone on.
pub(super) fn involuntary_switches() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure in.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    usage.ru_nivcsw
}
