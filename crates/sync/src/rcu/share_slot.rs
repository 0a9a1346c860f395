//! A nullable RCU pointer to a value with shares.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use super::Share;
use crate::epoch::{Guard, pin, retire_share};
use crate::primitive::atomic::{AtomicPtr, Ordering};
use crate::primitive::const_unless_loom;

/// A nullable [`Share`], of eight bytes: like an [`RcuSlot`](super::RcuSlot) of a boxed one,
/// without the box. See [the module](super) for the rules.
pub struct ShareSlot<T> {
    /// Null or from `Share::into_raw`; swapped by writers, loaded by readers under a guard.
    pointer: AtomicPtr<T>,
    /// Owns a share of a `T` that any thread may read and that the last share drops.
    _owned: PhantomData<Share<T>>,
}

/// A borrowed share, valid as long as a guard. It does not count.
pub struct Shared<'g, T> {
    /// The value of a share; that share is dropped after the guard.
    pointer: NonNull<T>,
    _lives: PhantomData<&'g T>,
}

impl<T> ShareSlot<T> {
    const_unless_loom! {
        /// A slot with nothing in it.
        pub fn empty() -> ShareSlot<T> {
            ShareSlot { pointer: AtomicPtr::new(ptr::null_mut()), _owned: PhantomData }
        }
    }
}

impl<T: Send + Sync + 'static> ShareSlot<T> {
    /// The share in the slot, if there is one. Writes nothing.
    #[inline]
    pub fn load<'g>(&'g self, _g: &'g Guard) -> Option<Shared<'g, T>> {
        // Acquire: pairs with the AcqRel swap in `exchange` and the Release in `fill`; the value
        // behind the pointer is complete. The share outlives both borrows: a thread that takes it
        // out retires it through the epoch, which waits for the guard, and the slot's owner, who
        // would drop it at once, is excluded by the borrow of the slot.
        Shared::of(self.pointer.load(Ordering::Acquire))
    }

    /// Stores `value` if the slot is empty; returns it otherwise. A load and a store, for the only
    /// thread that may fill the slot: a share that another thread puts there in between is never
    /// dropped.
    ///
    /// # Errors
    /// The value, if the slot was not empty.
    #[inline]
    pub fn fill(&self, value: Share<T>) -> Result<(), Share<T>> {
        // Relaxed: the pointer is not followed.
        if !self.pointer.load(Ordering::Relaxed).is_null() {
            return Err(value);
        }
        // Release: pairs with the Acquire in `load`.
        self.pointer
            .store(value.into_raw().as_ptr(), Ordering::Release);
        Ok(())
    }

    /// Stores `value` (or nothing); returns the old value, whose share is dropped when no guard can
    /// see it any more.
    pub fn swap<'g>(&self, value: Option<Share<T>>, g: &'g Guard) -> Option<Shared<'g, T>> {
        Some(self.exchange(value)?.retire(g))
    }

    /// Stores `value` (or nothing) and returns the old share unretired: a caller that holds a lock
    /// can retire it after unlocking.
    #[inline]
    pub fn exchange(&self, value: Option<Share<T>>) -> Option<Removed<T>> {
        let new = value.map_or(ptr::null_mut(), |value| value.into_raw().as_ptr());
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
    /// From `Share::into_raw`, out of its only slot: the share belongs to this value alone.
    pointer: NonNull<T>,
}

impl<T: Send + Sync + 'static> Removed<T> {
    /// Drops the share when no guard can see it any more; the result can be used until then.
    pub fn retire<'g>(self, g: &'g Guard) -> Shared<'g, T> {
        let pointer = ManuallyDrop::new(self).pointer;
        // SAFETY: the share is ours alone, see the field, and no new reader finds it.
        unsafe { retire_share(pointer, g) };
        Shared {
            pointer,
            _lives: PhantomData,
        }
    }
}

impl<T: Send + Sync + 'static> Drop for Removed<T> {
    fn drop(&mut self) {
        // SAFETY: as in `retire`, which does not run this.
        unsafe { retire_share(self.pointer, &pin()) };
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
        // SAFETY: a share lives as long as what `self` borrows, see `ShareSlot::load`.
        unsafe { self.pointer.as_ref() }
    }

    /// A counted share, which outlives the guard.
    pub fn to_share(self) -> Share<T> {
        // SAFETY: the pointer comes from `Share::into_raw`, and a share lives as long as `self`.
        unsafe { Share::another(self.pointer) }
    }
}

impl<'g, T> From<&'g Share<T>> for Shared<'g, T> {
    /// Borrows a share that the caller owns: the borrow takes the place of the guard.
    fn from(share: &'g Share<T>) -> Self {
        Shared {
            pointer: share.as_ptr(),
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

impl<T> Default for ShareSlot<T> {
    fn default() -> ShareSlot<T> {
        ShareSlot::empty()
    }
}

impl<T> std::fmt::Debug for ShareSlot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: the pointer is printed, not followed.
        f.debug_tuple("ShareSlot")
            .field(&self.pointer.load(Ordering::Relaxed))
            .finish()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Shared<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for ShareSlot<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` has synchronised with every earlier writer.
        if let Some(pointer) = NonNull::new(self.pointer.load(Ordering::Relaxed)) {
            // SAFETY: the slot owns the share, and every `Shared` that relies on it borrows the
            // slot.
            drop(unsafe { Share::from_raw(pointer) });
        }
    }
}
