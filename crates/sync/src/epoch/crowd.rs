//! For tests: threads that want the core which another one has.

use crate::primitive::atomic::{AtomicBool, Ordering};
use crate::primitive::{self, Arc, thread};
use std::time::Duration;

/// How long they rest, before they look whether to go on.
pub(super) const REST: Duration = Duration::from_millis(1);

/// Three threads on one core. Dropped, they end.
pub(super) struct Crowd {
    works: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Crowd {
    /// On the core that the calling thread is on, and stays on from now; they rest.
    pub fn here() -> Crowd {
        // SAFETY: the set is plain data, the number is inside, the call gets its true size.
        unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(primitive::cpu(), &mut one);
            let done = libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
            assert_eq!(done, 0);
        }
        let (works, is_over) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let one = || {
            let (works, is_over) = (works.clone(), Arc::clone(&is_over));
            thread::spawn(move || {
                while !AtomicBool::load(&is_over, Ordering::Relaxed) {
                    match works.load(Ordering::Relaxed) {
                        true => std::hint::spin_loop(),
                        false => thread::sleep(REST),
                    }
                }
            })
        };
        let threads = (0..3).map(|_| one()).collect();
        Crowd {
            works,
            is_over,
            threads,
        }
    }

    /// None of them gives the core away from now on, or all of them rest.
    pub fn work(&self, works: bool) {
        self.works.store(works, Ordering::Relaxed);
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("it only spins");
        }
    }
}

/// Times that the calling thread lost its core while it could have gone on.
pub(super) fn lost() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure in.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    usage.ru_nivcsw
}
