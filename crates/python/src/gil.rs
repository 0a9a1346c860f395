//! When the interpreter's lock is released.

use pyo3::marker::Ungil;
use pyo3::prelude::*;

/// From this many bytes on a copy is worth more to other threads than the change of the lock costs.
pub const MUCH: usize = 32 << 10;

/// From this many nanoseconds of work on a batch is: a thread that waits for the lock needs some
/// microseconds to wake. Below, two threads are slower than one.
pub const LONG_NS: usize = 20_000;

/// Runs `f`, without the lock if `released`.
#[inline]
pub fn run<T, F>(py: Python<'_>, released: bool, f: F) -> T
where
    F: Ungil + FnOnce() -> T,
    T: Ungil,
{
    if released { py.detach(f) } else { f() }
}
