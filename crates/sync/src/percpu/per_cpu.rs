//! One value per core.

use crossbeam_utils::CachePadded;

use crate::primitive::{core, cores, cpu};

/// One `T` per core, each on cache lines of its own.
///
/// Threads may move between [`PerCpu::get`] and the use of its result, so `T` must be usable by two
/// threads at once: an atomic, or a lock that is almost always free.
#[derive(Debug)]
pub struct PerCpu<T> {
    /// `cores()` values; the box is immutable after construction.
    values: Box<[CachePadded<T>]>,
}

impl<T> PerCpu<T> {
    /// One value per core, made by `make` from the core's number.
    pub fn new(make: impl FnMut(usize) -> T) -> PerCpu<T> {
        PerCpu {
            values: (0..cores()).map(make).map(CachePadded::new).collect(),
        }
    }

    /// The value of the core that this thread runs on.
    #[inline]
    pub fn get(&self) -> &T {
        // There are `cores()` values, so the bounds check is the only check.
        match self.values.get(cpu()) {
            Some(value) => value,
            None => self.folded(),
        }
    }

    #[cold]
    fn folded(&self) -> &T {
        &self.values[core()]
    }

    /// The value of one core.
    ///
    /// # Panics
    ///
    /// When `core` is not below [`cores`].
    #[inline]
    pub fn of(&self, core: usize) -> &T {
        &self.values[core]
    }

    /// All values in the order of the cores.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().map(|value| &**value)
    }

    /// All values in the order of the cores, through exclusive access.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().map(|value| &mut **value)
    }
}
