//! The native types: std's atomics and threads, parking_lot's locks.

#[cfg(test)]
use std::cell::Cell;
use std::time::Duration;

pub use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::{Arc, OnceLock, Weak};

/// Atomic types.
pub mod atomic {
    pub use std::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, compiler_fence, fence,
    };
}

/// Threads.
pub mod thread {
    pub use std::thread::{
        Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, available_parallelism,
        current, panicking, park, park_timeout, scope, sleep, spawn, yield_now,
    };

    /// Starts a thread called `name` that ends before the scope does.
    ///
    /// # Errors
    ///
    /// The operating system could not make a thread.
    pub fn spawn_scoped<'scope, F, T>(
        scope: &'scope Scope<'scope, '_>,
        name: &str,
        run: F,
    ) -> std::io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new().name(name.into()).spawn_scoped(scope, run)
    }
}

pub use std::thread_local;

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// A condition without waiters.
    pub const fn new() -> Condvar {
        Condvar(parking_lot::Condvar::new())
    }

    /// Releases the lock, sleeps until notified, takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.0.wait(guard);
    }

    /// Like [`Condvar::wait`] for at most `limit`; true when the time ran out.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Duration) -> bool {
        self.0.wait_for(guard, limit).timed_out()
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// The core that this thread runs on now, below [`cores`].
///
/// A hint: the thread may move at any time, so the data that a core number selects must be safe to
/// share.
// Always inlined: it is two loads and a comparison.
#[inline(always)]
pub fn core() -> usize {
    let cpu = cpu();
    // Relaxed: see `cores`. Before they are counted there are none, and no number is below.
    match cpu < CORES.load(atomic::Ordering::Relaxed) {
        true => cpu,
        false => folded(cpu),
    }
}

#[cold]
#[inline(never)]
fn folded(cpu: usize) -> usize {
    cpu % cores()
}

/// The core that this thread runs on now in the kernel's numbering, which may be at or above
/// [`cores`].
#[inline]
pub(crate) fn cpu() -> usize {
    #[cfg(test)]
    if let Some(core) = FORCED_CORE.get() {
        return core;
    }
    super::cpu::current()
}

/// The number of cores that this machine is configured with, at least 1 and constant for the whole
/// run.
#[inline]
pub fn cores() -> usize {
    // Relaxed: the value is written once with what every thread would compute itself.
    match CORES.load(atomic::Ordering::Relaxed) {
        0 => count_cores(),
        cores => cores,
    }
}

/// Makes [`core`] return `core` on this thread, so that one test thread can act as several cores.
#[cfg(test)]
pub(crate) fn force_core(core: usize) {
    assert!(core < cores(), "core {core} of {}", cores());
    FORCED_CORE.set(Some(core));
}

/// A backoff: first spins, then yields.
#[derive(Debug, Default)]
pub struct Backoff(crossbeam_utils::Backoff);

impl Backoff {
    /// A wait that has just begun.
    #[inline]
    pub fn new() -> Backoff {
        Backoff(crossbeam_utils::Backoff::new())
    }

    /// Waits a little, longer each time; yields to the scheduler once spinning was long enough.
    #[inline]
    pub fn snooze(&self) {
        self.0.snooze();
    }

    /// Waits a little after losing a race: no other thread must make progress first.
    #[inline]
    pub fn spin(&self) {
        self.0.spin();
    }

    /// True when spinning was long enough that parking is better.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.0.is_completed()
    }

    /// Begins again.
    #[inline]
    pub fn reset(&self) {
        self.0.reset();
    }
}

static CORES: atomic::AtomicUsize = atomic::AtomicUsize::new(0);

#[cfg(test)]
std::thread_local! {
    static FORCED_CORE: Cell<Option<usize>> = const { Cell::new(None) };
}

#[cold]
#[inline(never)]
fn count_cores() -> usize {
    // SAFETY: sysconf takes no pointer.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    let floor = if cfg!(test) { 4 } else { 1 };
    let cores = usize::try_from(configured).unwrap_or(1).max(floor);
    settle(&CORES, cores)
}

/// The number of whoever comes first, for all: a core may come between two counts.
fn settle(first: &atomic::AtomicUsize, counted: usize) -> usize {
    let (success, failure) = (atomic::Ordering::Relaxed, atomic::Ordering::Relaxed);
    // Relaxed: see `cores`.
    match first.compare_exchange(0, counted, success, failure) {
        Ok(_) => counted,
        Err(first) => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_count_different_cores_agree_on_the_first_count() {
        let first = atomic::AtomicUsize::new(0);
        assert_eq!([4, 8].map(|counted| settle(&first, counted)), [4, 4]);
    }
}
