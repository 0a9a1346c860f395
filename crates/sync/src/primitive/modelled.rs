//! The model checkers' types, with the same names and the same parking_lot-like interface.

use std::sync::PoisonError;
use std::time::Duration;

#[cfg(feature = "loom")]
use loom as model;
#[cfg(feature = "shuttle")]
use shuttle as model;

pub use model::thread_local;

#[cfg(feature = "loom")]
pub use loom::sync::Arc;
#[cfg(feature = "shuttle")]
pub use std::sync::{Arc, Weak};

use super::const_unless_loom;

/// Atomic types.
pub mod atomic {
    pub use super::model::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, fence,
    };
}

/// Threads.
pub mod thread {
    pub use super::model::thread::{
        Builder, JoinHandle, Thread, ThreadId, current, park, spawn, yield_now,
    };
    #[cfg(feature = "shuttle")]
    pub use shuttle::thread::{Scope, ScopedJoinHandle, park_timeout, scope};
    pub use std::thread::{available_parallelism, panicking};

    /// Starts a thread that ends before the scope does; a model never runs out of threads.
    #[cfg(feature = "shuttle")]
    pub fn spawn_scoped<'scope, F, T>(
        scope: &'scope Scope<'scope, '_>,
        _name: &str,
        run: F,
    ) -> std::io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Ok(scope.spawn(run))
    }

    /// Yields: time does not pass in a model.
    pub fn sleep(_time: std::time::Duration) {
        yield_now();
    }
}

/// A lock around a value.
#[derive(Debug, Default)]
pub struct Mutex<T>(model::sync::Mutex<T>);

/// Proof that a [`Mutex`] is held.
///
/// `None` only while a condition variable has the lock.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<model::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    const_unless_loom! {
        /// An open lock.
        pub fn new(value: T) -> Mutex<T> {
            Mutex(model::sync::Mutex::new(value))
        }
    }

    /// Takes the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Takes the lock if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard(Some(guard))),
            Err(_) => None,
        }
    }

    /// The value, through exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

const HELD: &str = "the guard is empty only while a condition variable waits";

impl<T> std::ops::Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect(HELD)
    }
}

impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(HELD)
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(model::sync::Condvar);

impl Condvar {
    const_unless_loom! {
        /// A condition without waiters.
        pub fn new() -> Condvar {
            Condvar(model::sync::Condvar::new())
        }
    }

    /// Releases the lock, sleeps until notified, takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.0.take().expect(HELD);
        guard.0 = Some(self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
    }

    /// Like [`Condvar::wait`]; time does not pass in a model, so it never runs out.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _limit: Duration) -> bool {
        self.wait(guard);
        false
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

/// A lock around a value, shared by readers.
#[derive(Debug, Default)]
pub struct RwLock<T>(model::sync::RwLock<T>);

/// Proof that a [`RwLock`] is held for reading.
pub type RwLockReadGuard<'a, T> = model::sync::RwLockReadGuard<'a, T>;
/// Proof that a [`RwLock`] is held for writing.
pub type RwLockWriteGuard<'a, T> = model::sync::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    const_unless_loom! {
        /// An open lock.
        pub fn new(value: T) -> RwLock<T> {
            RwLock(model::sync::RwLock::new(value))
        }
    }

    /// Takes the lock for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock for reading if no writer has it.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read().ok()
    }

    /// Takes the lock for writing if nobody has it.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write().ok()
    }
}

/// A value that is computed once.
///
/// std's type would wait for another initialiser on the operating-system thread that the model
/// checker runs all tasks on. The lock here is the model's, so std's cell never waits.
#[derive(Debug)]
pub struct OnceLock<T> {
    cell: std::sync::OnceLock<T>,
    /// Set after `cell`: makes std's ordering visible to the model, Release here and Acquire in
    /// `get`.
    filled: atomic::AtomicBool,
    filling: Mutex<()>,
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> OnceLock<T> {
    const_unless_loom! {
        /// Nothing computed yet.
        pub fn new() -> OnceLock<T> {
            OnceLock {
                cell: std::sync::OnceLock::new(),
                filled: atomic::AtomicBool::new(false),
                filling: Mutex::new(()),
            }
        }
    }

    /// The value if there is one.
    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with the Release of the thread that filled it.
        let filled = self.filled.load(atomic::Ordering::Acquire);
        filled.then(|| self.cell.get()).flatten()
    }

    /// The value if there is one, through exclusive access.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.cell.get_mut()
    }

    /// Sets the value; returns it if there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _filling = self.filling.lock();
        let set = self.cell.set(value);
        // Release: pairs with the Acquire in `get`.
        self.filled.store(true, atomic::Ordering::Release);
        set
    }

    /// The value, computed now if necessary.
    pub fn get_or_init(&self, compute: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let _filling = self.filling.lock();
        let value = self.cell.get_or_init(compute);
        // Release: as in `set`.
        self.filled.store(true, atomic::Ordering::Release);
        value
    }

    /// The value if there is one.
    pub fn into_inner(self) -> Option<T> {
        self.cell.into_inner()
    }
}

/// The core that this task stands for: tasks in the order of their start, modulo [`cores`].
pub fn core() -> usize {
    task() % cores()
}

/// Equals [`core`]: a model has no core at or above [`cores`].
pub(crate) fn cpu() -> usize {
    core()
}

/// The number of cores of the model: few, so that two tasks share one now and then.
pub fn cores() -> usize {
    if cfg!(feature = "loom") { 3 } else { 4 }
}

#[cfg(feature = "shuttle")]
fn task() -> usize {
    usize::from(shuttle::thread::current().id())
}

#[cfg(feature = "loom")]
fn task() -> usize {
    // The number is in the name, `ThreadId(n)`, and nowhere else.
    format!("{:?}", loom::thread::current().id())
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

/// A backoff that always yields, because nothing happens in a model meanwhile.
///
/// Two tasks that wait for a third can yield to each other for ever, and loom would explore ever
/// longer ways of doing so. So loom is told to explore no further once one wait has yielded
/// [`PATIENCE`] times in vain: such a run goes on to its end, and its variations are left out.
#[derive(Debug, Default)]
pub struct Backoff {
    yields: std::cell::Cell<u32>,
}

#[cfg(feature = "loom")]
const PATIENCE: u32 = 6;

impl Backoff {
    /// A wait that has just begun.
    pub fn new() -> Backoff {
        Backoff::default()
    }

    /// Yields to another task.
    pub fn snooze(&self) {
        self.yields.set(self.yields.get() + 1);
        #[cfg(feature = "loom")]
        if self.yields.get() > PATIENCE {
            loom::skip_branch();
        }
        thread::yield_now();
    }

    /// Yields to another task.
    pub fn spin(&self) {
        self.snooze();
    }

    /// False: there is nothing better than yielding.
    pub fn is_completed(&self) -> bool {
        false
    }

    /// Begins again.
    pub fn reset(&self) {
        self.yields.set(0);
    }
}
