//! For tests: threads that compete for one core.

use crate::primitive::atomic::{AtomicBool, Ordering};
use crate::primitive::{self, Arc, thread};
use std::time::Duration;

/// The length of a sleep between two looks at the flags.
const REST: Duration = Duration::from_millis(1);

/// Three threads on one core, which end when this is dropped.
pub(super) struct CpuHog {
    spinning: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl CpuHog {
    /// Pins the calling thread to its current core and starts the threads there, paused.
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

    /// Starts or pauses the spinning threads.
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

/// The number of involuntary context switches of the calling thread.
pub(super) fn involuntary_switches() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure in.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    usage.ru_nivcsw
}
