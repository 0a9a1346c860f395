//! When the interpreter's lock is released, and how it is taken again. `docs/design/python.md` has
//! the reasons and the figures.

use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{OnceLock, thread};
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// From this many bytes on a copy is worth more to other threads than the change of the lock costs.
pub const MUCH: usize = 32 << 10;

/// From this many nanoseconds of work on a batch is, since [`take_over`] spares the sleep.
pub const LONG_NS: usize = 2_000;

/// How long a thread looks whether the lock is given up before it sleeps for it: what a holder does
/// between two calls, and less than sleeping and waking takes where CPUs are idle.
const PATIENCE: Duration = Duration::from_micros(20);

/// A line of its own in the caches: who waits reads it all the time.
#[repr(align(128))]
struct Line<T>(T);

/// Whether one of our calls was the last to take the lock again, and none has released it since. A
/// hint: other code releases the lock and says nothing here. Relaxed, because the lock itself
/// orders everything else.
static TAKEN: Line<AtomicBool> = Line(AtomicBool::new(false));

/// Runs `f`, without the lock if `released`.
#[inline]
pub fn run<T, F>(py: Python<'_>, released: bool, f: F) -> T
where
    F: Send + FnOnce() -> T,
    T: Send,
{
    if !released {
        return f();
    }
    py.detach(|| {
        TAKEN.0.store(false, Ordering::Relaxed);
        let done = f();
        take_over();
        done
    })
}

/// Waits for a moment while one of our calls has the lock, because a thread that sleeps for it
/// takes longer to wake than the holder keeps it. Of several that wait one goes on, and takes it.
#[inline]
fn take_over() {
    if !claim() && may_spin() {
        let end = Instant::now() + PATIENCE;
        while !claim() && Instant::now() < end {
            // Looking at the clock each time would be late.
            for _ in 0..4 {
                std::hint::spin_loop();
            }
        }
    }
}

/// Says that the lock is taken now, if nobody has said so.
#[inline]
fn claim() -> bool {
    let taken = &TAKEN.0;
    let (relaxed, is_free) = (Ordering::Relaxed, !taken.load(Ordering::Relaxed));
    is_free
        && taken
            .compare_exchange(false, true, relaxed, relaxed)
            .is_ok()
}

/// On a single CPU the holder could not go on meanwhile.
fn may_spin() -> bool {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from)) > 1
}
