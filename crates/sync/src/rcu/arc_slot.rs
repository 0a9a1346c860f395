//! A nullable RCU pointer to an `Arc`.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use crate::epoch::{Guard, pin, retire_share};
use crate::primitive::Arc;
use crate::primitive::atomic::{AtomicPtr, Ordering};
use crate::primitive::const_unless_loom;

/// A nullable share of an [`Arc`], of eight bytes: like an [`RcuSlot`](super::RcuSlot) of a boxed
/// `Arc`, without the box. See [the module](super) for the rules.
pub struct ArcSlot<T> {
    /// Null or from `Arc::into_raw`; swapped by writers, loaded by readers under a guard.
    pointer: AtomicPtr<T>,
    /// Owns a share of a `T` that any thread may read and that the last share drops.
    _owned: PhantomData<Arc<T>>,
}

/// A borrowed share, valid as long as a guard. It does not count.
pub struct Shared<'g, T> {
    /// The value of an `Arc`; its share is dropped after the guard.
    pointer: NonNull<T>,
    _lives: PhantomData<&'g T>,
}

impl<T> ArcSlot<T> {
    const_unless_loom! {
        /// A slot with nothing in it.
        pub fn empty() -> ArcSlot<T> {
            ArcSlot { pointer: AtomicPtr::new(ptr::null_mut()), _owned: PhantomData }
        }
    }
}

impl<T: Send + Sync + 'static> ArcSlot<T> {
    /// The share in the slot, if there is one. Writes nothing.
    #[inline]
    pub fn load<'g>(&'g self, _g: &'g Guard) -> Option<Shared<'g, T>> {
        // Acquire: pairs with the AcqRel swap in `exchange` and the Release in `install`; the value
        // behind the pointer is complete. The share outlives both borrows: a thread that takes it
        // out retires it through the epoch, which waits for the guard, and the slot's owner, who
        // would drop it at once, is excluded by the borrow of the slot.
        Shared::of(self.pointer.load(Ordering::Acquire))
    }

    /// Stores `value` if the slot is empty; returns it otherwise.
    ///
    /// # Errors
    /// The value, if the slot was not empty.
    pub fn install(&self, value: Arc<T>) -> Result<(), Arc<T>> {
        let new = Arc::into_raw(value).cast_mut();
        // Release: pairs with the Acquire in `load`. Relaxed on failure: the other value is not
        // looked at.
        let installed = self.pointer.compare_exchange(
            ptr::null_mut(),
            new,
            Ordering::Release,
            Ordering::Relaxed,
        );
        // SAFETY: the exchange failed, so the pointer was never published.
        installed.map_or_else(|_| Err(unsafe { Arc::from_raw(new) }), |_| Ok(()))
    }

    /// Stores `value` (or nothing); returns the old value, whose share is dropped when no guard can
    /// see it any more.
    pub fn swap<'g>(&self, value: Option<Arc<T>>, g: &'g Guard) -> Option<Shared<'g, T>> {
        Some(self.exchange(value)?.retire(g))
    }

    /// Stores `value` (or nothing) and returns the old share unretired: a caller that holds a lock
    /// can retire it after unlocking.
    #[inline]
    pub fn exchange(&self, value: Option<Arc<T>>) -> Option<Removed<T>> {
        let new = value.map_or(ptr::null_mut(), |value| Arc::into_raw(value).cast_mut());
        // AcqRel: Release pairs with the Acquire in `load`; Acquire pairs with the Release of the
        // thread that stored the old value, which is used.
        let old = self.pointer.swap(new, Ordering::AcqRel);
        NonNull::new(old).map(|pointer| Removed { pointer })
    }

    /// True if the slot is empty now.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Acquire: the pointer is not followed, but a caller that finds it set or empty may rely on
        // what was done before, as in `load`.
        self.pointer.load(Ordering::Acquire).is_null()
    }
}

/// A share that was taken out of its slot and that readers may still see. It is retired on drop.
pub struct Removed<T: Send + Sync + 'static> {
    /// From `Arc::into_raw`, out of its only slot: the share belongs to this value alone.
    pointer: NonNull<T>,
}

impl<T: Send + Sync + 'static> Removed<T> {
    /// Drops the share when no guard can see it any more; the result can be used until then.
    pub fn retire<'g>(self, g: &'g Guard) -> Shared<'g, T> {
        let pointer = ManuallyDrop::new(self).pointer;
        // SAFETY: the share is ours alone, see the field, and no new reader finds it.
        unsafe { retire_share(pointer.as_ptr().cast_const(), g) };
        Shared {
            pointer,
            _lives: PhantomData,
        }
    }
}

impl<T: Send + Sync + 'static> Drop for Removed<T> {
    fn drop(&mut self) {
        // SAFETY: as in `retire`, which does not run this.
        unsafe { retire_share(self.pointer.as_ptr().cast_const(), &pin()) };
    }
}

impl<'g, T> Shared<'g, T> {
    fn of(pointer: *mut T) -> Option<Self> {
        let pointer = NonNull::new(pointer)?;
        Some(Shared {
            pointer,
            _lives: PhantomData,
        })
    }

    /// The value.
    #[inline]
    pub fn get(self) -> &'g T {
        // SAFETY: a share lives as long as what `self` borrows, see `ArcSlot::load`.
        unsafe { self.pointer.as_ref() }
    }

    /// A counted share, which outlives the guard.
    pub fn to_arc(self) -> Arc<T> {
        let pointer = self.pointer.as_ptr().cast_const();
        // SAFETY: the pointer comes from `Arc::into_raw`, and a share lives as long as `self`: so
        // one may be added, which is then owned here.
        unsafe {
            Arc::increment_strong_count(pointer);
            Arc::from_raw(pointer)
        }
    }
}

impl<'g, T> From<&'g Arc<T>> for Shared<'g, T> {
    /// Borrows a share that the caller owns: the borrow takes the place of the guard.
    fn from(share: &'g Arc<T>) -> Self {
        let pointer = NonNull::new(Arc::as_ptr(share).cast_mut());
        Shared {
            pointer: pointer.expect("an Arc points to something"),
            _lives: PhantomData,
        }
    }
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

impl<T> Deref for Shared<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.get()
    }
}

impl<T> Default for ArcSlot<T> {
    fn default() -> ArcSlot<T> {
        ArcSlot::empty()
    }
}

impl<T> std::fmt::Debug for ArcSlot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: the pointer is printed, not followed.
        f.debug_tuple("ArcSlot")
            .field(&self.pointer.load(Ordering::Relaxed))
            .finish()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Shared<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for ArcSlot<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` has synchronised with every earlier writer.
        let pointer = self.pointer.load(Ordering::Relaxed);
        if !pointer.is_null() {
            // SAFETY: the slot owns the share, and every `Shared` that relies on it borrows the
            // slot.
            drop(unsafe { Arc::from_raw(pointer.cast_const()) });
        }
    }
}
