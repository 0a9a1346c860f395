//! Locks with a class.
//!
//! A class names what a lock protects and where it stands in the order in which locks are taken.
//! In debug builds every thread keeps the list of the classes it holds, and taking a lock whose
//! rank is not above all of them panics with both names: an order that could deadlock is found
//! by the first thread that walks it, without the second thread that it takes to deadlock.
//!
//! A class is a type and costs nothing at run time.

use std::marker::PhantomData;
use std::time::Duration;

use crate::primitive::{Condvar, Mutex, MutexGuard, const_unless_loom};

/// What a lock protects and where it stands in the order. [`lock_class!`](crate::lock_class)
/// declares one.
pub trait Class {
    /// The name that messages and profiles show.
    const NAME: &'static str;
    /// The place in the order: a lock is taken only while all held ones have lower ranks.
    const RANK: u32;
}

/// Declares lock classes: `lock_class!(pub InodeLock = "inode", 30);`
#[macro_export]
macro_rules! lock_class {
    ($($(#[$meta:meta])* $vis:vis $class:ident = $name:expr, $rank:expr;)+) => {
        $(
            $(#[$meta])*
            #[doc = concat!("Lock class ", stringify!($name), ", rank ", stringify!($rank), ".")]
            #[derive(Debug)]
            $vis enum $class {}

            impl $crate::lock::Class for $class {
                const NAME: &'static str = $name;
                const RANK: u32 = $rank;
            }
        )+
    };
    ($(#[$meta:meta])* $vis:vis $class:ident = $name:expr, $rank:expr) => {
        $crate::lock_class!($(#[$meta])* $vis $class = $name, $rank;);
    };
}

/// A lock of class `C` around a value.
pub struct Lock<C, T> {
    value: Mutex<T>,
    class: PhantomData<fn() -> C>,
}

/// Proof that a [`Lock`] is held; gives it up when dropped.
#[must_use = "the lock is given up when the guard is dropped"]
pub struct Guard<'a, C: Class, T> {
    value: MutexGuard<'a, T>,
    /// Dropped after `value` gave the lock up.
    _held: order::Held<C>,
}

impl<C: Class, T> Lock<C, T> {
    const_unless_loom! {
        /// An open lock.
        pub fn new(value: T) -> Lock<C, T> {
            Lock { value: Mutex::new(value), class: PhantomData }
        }
    }

    /// Takes the lock.
    ///
    /// # Panics
    ///
    /// In debug builds, when this thread holds a lock of the same or a higher rank.
    #[inline]
    pub fn lock(&self) -> Guard<'_, C, T> {
        let held = order::Held::above();
        Guard {
            value: self.value.lock(),
            _held: held,
        }
    }

    /// Takes the lock if nobody has it. May be tried out of order: it never waits.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, C, T>> {
        let value = self.value.try_lock()?;
        Some(Guard {
            value,
            _held: order::Held::anywhere(),
        })
    }

    /// Takes the lock although this thread may hold others of the same class.
    ///
    /// The caller orders the locks of one class: by inode number, parent before child.
    ///
    /// # Panics
    ///
    /// In debug builds, when this thread holds a lock of a higher rank.
    #[inline]
    pub fn lock_nested(&self) -> Guard<'_, C, T> {
        let held = order::Held::beside();
        Guard {
            value: self.value.lock(),
            _held: held,
        }
    }

    /// The value, through exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// Takes two locks of one class, in the order of their addresses; the guards come in the order
/// of the arguments. The second is `None` when both are the same lock.
///
/// # Panics
///
/// In debug builds, when this thread holds a lock of the same or a higher rank.
pub fn lock_two<'a, C: Class, T>(
    a: &'a Lock<C, T>,
    b: &'a Lock<C, T>,
) -> (Guard<'a, C, T>, Option<Guard<'a, C, T>>) {
    if std::ptr::eq(a, b) {
        return (a.lock(), None);
    }
    if std::ptr::from_ref(a) < std::ptr::from_ref(b) {
        let first = a.lock();
        (first, Some(b.lock_nested()))
    } else {
        let second = b.lock();
        (a.lock_nested(), Some(second))
    }
}

impl<C: Class, T> Guard<'_, C, T> {
    /// Gives the lock up, sleeps until `condition` is notified, takes the lock again.
    ///
    /// The class counts as held meanwhile: what the thread takes after is above it anyway.
    pub fn wait(&mut self, condition: &Condvar) {
        condition.wait(&mut self.value);
    }

    /// Like [`Guard::wait`] for at most `limit`; true when the time ran out.
    pub fn wait_for(&mut self, condition: &Condvar, limit: Duration) -> bool {
        condition.wait_for(&mut self.value, limit)
    }
}

impl<C: Class, T> std::ops::Deref for Guard<'_, C, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<C: Class, T> std::ops::DerefMut for Guard<'_, C, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<C: Class, T: Default> Default for Lock<C, T> {
    fn default() -> Lock<C, T> {
        Lock::new(T::default())
    }
}

impl<C: Class, T> std::fmt::Debug for Lock<C, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lock").field(&C::NAME).finish()
    }
}

impl<C: Class, T: std::fmt::Debug> std::fmt::Debug for Guard<'_, C, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple(C::NAME).field(&*self.value).finish()
    }
}

/// The classes that a thread holds, in debug builds.
#[cfg(debug_assertions)]
mod order {
    use std::cell::RefCell;
    use std::marker::PhantomData;

    use super::Class;
    use crate::primitive::thread::panicking;
    use crate::primitive::thread_local;

    /// One entry in the list of this thread. Bound to the thread: the list is.
    pub(super) struct Held<C: Class>(PhantomData<fn() -> C>, PhantomData<*const ()>);

    thread_local! {
        static HELD: RefCell<Vec<(u32, &'static str)>> = RefCell::default();
    }

    impl<C: Class> Held<C> {
        /// Enters the class; all held ones must have lower ranks.
        pub(super) fn above() -> Held<C> {
            Self::enter(|rank| rank < C::RANK)
        }

        /// Enters the class; all held ones must have lower ranks or the same.
        pub(super) fn beside() -> Held<C> {
            Self::enter(|rank| rank <= C::RANK)
        }

        /// Enters the class whatever is held.
        pub(super) fn anywhere() -> Held<C> {
            Self::enter(|_| true)
        }

        fn enter(may_be_held: impl Fn(u32) -> bool) -> Held<C> {
            let wrong = HELD.with(|held| {
                let mut held = held.borrow_mut();
                let wrong = held.iter().copied().find(|&(rank, _)| !may_be_held(rank));
                if wrong.is_none() {
                    held.push((C::RANK, C::NAME));
                }
                wrong
            });
            if let Some((rank, name)) = wrong {
                panic!(
                    "lock order: {} ({}) taken under {name} ({rank})",
                    C::NAME,
                    C::RANK
                );
            }
            Held(PhantomData, PhantomData)
        }
    }

    impl<C: Class> Drop for Held<C> {
        fn drop(&mut self) {
            // While a thread ends, its list may be gone before its last guard.
            let found = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                let entry = held
                    .iter()
                    .rposition(|&(rank, name)| (rank, name) == (C::RANK, C::NAME));
                entry.map(|entry| held.remove(entry)).is_some()
            });
            debug_assert!(
                found.unwrap_or(true) || panicking(),
                "{} was not held",
                C::NAME
            );
        }
    }
}

/// Nothing is kept in release builds.
#[cfg(not(debug_assertions))]
mod order {
    use std::marker::PhantomData;

    use super::Class;

    pub(super) struct Held<C: Class>(PhantomData<fn() -> C>, PhantomData<*const ()>);

    impl<C: Class> Held<C> {
        #[inline]
        pub(super) fn above() -> Held<C> {
            Held(PhantomData, PhantomData)
        }

        #[inline]
        pub(super) fn beside() -> Held<C> {
            Held(PhantomData, PhantomData)
        }

        #[inline]
        pub(super) fn anywhere() -> Held<C> {
            Held(PhantomData, PhantomData)
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    lock_class! {
        Low = "low", 10;
        High = "high", 20;
    }

    #[test]
    fn locks_are_taken_upwards() {
        let low: Lock<Low, u32> = Lock::new(1);
        let high: Lock<High, u32> = Lock::new(2);
        let first = low.lock();
        let second = high.lock();
        assert_eq!(*first + *second, 3);
        drop(first);
        drop(second);
        assert_eq!(*high.lock(), 2);
        assert_eq!(*low.lock(), 1);
    }

    #[test]
    #[should_panic(expected = "lock order: low (10) taken under high (20)")]
    fn a_lock_taken_downwards_panics() {
        let (low, high) = (Lock::<Low, ()>::new(()), Lock::<High, ()>::new(()));
        let _high = high.lock();
        let _low = low.lock();
    }

    #[test]
    #[should_panic(expected = "lock order: low (10) taken under low (10)")]
    fn two_locks_of_a_class_need_the_nested_call() {
        let (a, b) = (Lock::<Low, ()>::new(()), Lock::<Low, ()>::new(()));
        let _a = a.lock();
        let _b = b.lock();
    }

    #[test]
    fn an_attempt_may_go_downwards() {
        let (low, high) = (Lock::<Low, ()>::new(()), Lock::<High, ()>::new(()));
        let _high = high.lock();
        let held = low.try_lock().expect("nobody has it");
        assert!(low.try_lock().is_none());
        drop(held);
    }

    #[test]
    fn two_locks_come_in_the_order_of_the_arguments() {
        let locks = [Lock::<Low, u32>::new(0), Lock::<Low, u32>::new(1)];
        for (a, b) in [(0, 1), (1, 0)] {
            let (first, second) = lock_two(&locks[a], &locks[b]);
            assert_eq!((*first as usize, *second.unwrap() as usize), (a, b));
        }
        let (_first, second) = lock_two(&locks[0], &locks[0]);
        assert!(second.is_none());
    }

    #[test]
    fn a_class_costs_no_byte() {
        assert_eq!(size_of::<Lock<Low, ()>>(), 1);
    }
}
