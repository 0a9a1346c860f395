//! The order in which a thread takes locks, checked in debug builds.

#[cfg(debug_assertions)]
pub(super) use checked::HeldClass;
#[cfg(not(debug_assertions))]
pub(super) use unchecked::HeldClass;

/// The classes that a thread holds, in debug builds.
#[cfg(debug_assertions)]
mod checked {
    use std::cell::RefCell;
    use std::marker::PhantomData;

    use crate::lock::Class;
    use crate::primitive::thread::panicking;
    use crate::primitive::thread_local;

    /// One entry in this thread's list of held classes. Bound to the thread, as the list is.
    pub(in crate::lock) struct HeldClass<C: Class>(PhantomData<fn() -> C>, PhantomData<*const ()>);

    thread_local! {
        static HELD: RefCell<Vec<(u32, &'static str)>> = RefCell::default();
    }

    impl<C: Class> HeldClass<C> {
        /// Records the class; all held ones must have lower ranks.
        pub(in crate::lock) fn above() -> HeldClass<C> {
            Self::enter(|rank| rank < C::RANK)
        }

        /// Records the class; all held ones must have the same or lower ranks.
        pub(in crate::lock) fn beside() -> HeldClass<C> {
            Self::enter(|rank| rank <= C::RANK)
        }

        /// Records the class whatever is held.
        pub(in crate::lock) fn anywhere() -> HeldClass<C> {
            Self::enter(|_| true)
        }

        fn enter(may_be_held: impl Fn(u32) -> bool) -> HeldClass<C> {
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
            HeldClass(PhantomData, PhantomData)
        }
    }

    impl<C: Class> Drop for HeldClass<C> {
        fn drop(&mut self) {
            // While a thread exits, its list may be dropped before its last guard.
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

/// Nothing is recorded in release builds.
#[cfg(not(debug_assertions))]
mod unchecked {
    use std::marker::PhantomData;

    use crate::lock::Class;

    pub(in crate::lock) struct HeldClass<C: Class>(PhantomData<fn() -> C>, PhantomData<*const ()>);

    impl<C: Class> HeldClass<C> {
        #[inline]
        pub(in crate::lock) fn above() -> HeldClass<C> {
            HeldClass(PhantomData, PhantomData)
        }

        #[inline]
        pub(in crate::lock) fn beside() -> HeldClass<C> {
            HeldClass(PhantomData, PhantomData)
        }

        #[inline]
        pub(in crate::lock) fn anywhere() -> HeldClass<C> {
            HeldClass(PhantomData, PhantomData)
        }
    }
}
