//! A reference that can be taken out through a shared borrow.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::{ObjRef, Object};
use crate::epoch::Guard;
use crate::primitive::atomic::{AtomicPtr, Ordering};
use crate::primitive::const_unless_loom;

/// An [`ObjRef`] that several threads read and one may take out.
pub struct RefSlot<T> {
    /// Null, or an object with a reference that belongs to the slot. Swapped by `take` and
    /// `replace`, loaded by readers under a guard.
    object: AtomicPtr<Object<T>>,
    _held: PhantomData<ObjRef<T>>,
}

impl<T> RefSlot<T> {
    const_unless_loom! {
        /// A slot without a reference.
        pub fn empty() -> RefSlot<T> {
            RefSlot { object: AtomicPtr::new(ptr::null_mut()), _held: PhantomData }
        }
    }

    /// A slot with `held` in it.
    pub fn new(held: ObjRef<T>) -> RefSlot<T> {
        RefSlot {
            object: AtomicPtr::new(held.into_counted().as_ptr()),
            _held: PhantomData,
        }
    }

    /// The object, if there is a reference. Writes nothing.
    #[inline]
    pub fn get<'g>(&self, _g: &'g Guard) -> Option<&'g Object<T>> {
        // Acquire: pairs with the AcqRel in `replace`.
        let object = self.object.load(Ordering::Acquire);
        // SAFETY: the slot's reference kept the object alive when the pointer was read. The object
        // dies only after that reference left the slot, and goes through the epoch, which waits for
        // the guard.
        unsafe { object.as_ref() }
    }

    /// Takes the reference out.
    pub fn take(&self) -> Option<ObjRef<T>> {
        self.replace(None)
    }

    /// Stores another reference (or none) and returns the old one.
    pub fn replace(&self, held: Option<ObjRef<T>>) -> Option<ObjRef<T>> {
        let new = held.map_or(ptr::null_mut(), |held| held.into_counted().as_ptr());
        // AcqRel: Release pairs with the Acquire in `get`; Acquire with the Release of the thread
        // that put the old reference there.
        let old = NonNull::new(self.object.swap(new, Ordering::AcqRel))?;
        // SAFETY: the slot owned a reference to the object, and the swap took it out.
        Some(unsafe { ObjRef::from_counted(old) })
    }

    /// True if there is no reference now.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: the pointer is not followed.
        self.object.load(Ordering::Relaxed).is_null()
    }
}

impl<T> Default for RefSlot<T> {
    fn default() -> RefSlot<T> {
        RefSlot::empty()
    }
}

impl<T> std::fmt::Debug for RefSlot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: the pointer is printed, not followed.
        f.debug_tuple("RefSlot")
            .field(&self.object.load(Ordering::Relaxed))
            .finish()
    }
}

impl<T> Drop for RefSlot<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` has synchronised with every earlier writer.
        if let Some(held) = NonNull::new(self.object.load(Ordering::Relaxed)) {
            // SAFETY: the slot owns a reference to the object, and nobody can take it out any more.
            drop(unsafe { ObjRef::from_counted(held) });
        }
    }
}
