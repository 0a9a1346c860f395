//! A value that several own, with one count.

use std::marker::PhantomData;
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;

use crate::primitive::atomic::{AtomicUsize, Ordering, fence};

/// A counted share of a value, which is dropped with the last one. Like an `Arc` without weak
/// references: one count where that has two, and the last share goes without a locked instruction.
///
/// | access | ordering | partner |
/// |---|---|---|
/// | one more | Relaxed | none: the caller has a share, or borrows one |
/// | one less | Release | the last share: uses of the value come before its end |
/// | the last share: load, or fence after the subtraction | Acquire | one less |
///
/// Who drops a share and finds a count of 1 is alone: only who has a share adds one, by a borrow
/// that has ended when the share is dropped. What was found in a slot under a guard borrows the
/// slot's share, which is dropped after that guard.
pub struct Share<T> {
    /// The value of an [`Counted`] box, with the right to all of it.
    value: NonNull<T>,
    _counted: PhantomData<Counted<T>>,
}

/// The value first: a pointer to it is one to all of it.
#[repr(C)]
struct Counted<T> {
    value: T,
    /// How many shares there are.
    count: AtomicUsize,
}

/// Far more shares than fit into memory, and far less than the count can hold.
const MOST: usize = usize::MAX / 2;

// SAFETY: a share gives access to the value from any thread, and may be what drops it there.
unsafe impl<T: Send + Sync> Send for Share<T> {}
// SAFETY: as for Send: a borrowed share can be cloned.
unsafe impl<T: Send + Sync> Sync for Share<T> {}

impl<T> Share<T> {
    /// The first share of `value`.
    pub fn new(value: T) -> Share<T> {
        Share::of(|| value)
    }

    /// The first share of the value that `make` makes.
    // Always inlined: the value is then made where it stays.
    #[inline(always)]
    pub fn of(make: impl FnOnce() -> T) -> Share<T> {
        let mut counted = Box::<Counted<T>>::new_uninit();
        let at = counted.as_mut_ptr();
        // SAFETY: the parts do not leave the memory of the box, which belongs to this function.
        unsafe {
            (&raw mut (*at).value).write(make());
            (&raw mut (*at).count).write(AtomicUsize::new(1));
        }
        // SAFETY: both parts were written.
        let counted = Box::leak(unsafe { counted.assume_init() });
        Share {
            value: NonNull::from(counted).cast(),
            _counted: PhantomData,
        }
    }

    /// A pointer to the value, which keeps the share counted.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<T> {
        let value = self.value;
        std::mem::forget(self);
        value
    }

    /// # Safety
    ///
    /// `value` comes from [`Share::into_raw`], and the share that it left counted belongs to the
    /// caller alone, who passes it to the result.
    #[inline]
    pub(crate) unsafe fn from_raw(value: NonNull<T>) -> Share<T> {
        Share {
            value,
            _counted: PhantomData,
        }
    }

    /// # Safety
    ///
    /// `value` comes from [`Share::into_raw`], and a share of it lives as long as this call.
    #[inline]
    pub(crate) unsafe fn another(value: NonNull<T>) -> Share<T> {
        // SAFETY: the caller promises that it lives.
        let count = unsafe { &(*value.as_ptr().cast::<Counted<T>>()).count };
        // Relaxed: see the type.
        if count.fetch_add(1, Ordering::Relaxed) > MOST {
            abort();
        }
        // SAFETY: the share was added just now, for the caller.
        unsafe { Share::from_raw(value) }
    }

    pub(crate) fn as_ptr(&self) -> NonNull<T> {
        self.value
    }
}

impl<T> Deref for Share<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value lives as long as any share.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Clone for Share<T> {
    fn clone(&self) -> Share<T> {
        // SAFETY: this share lives.
        unsafe { Share::another(self.value) }
    }
}

impl<T> Drop for Share<T> {
    #[inline]
    fn drop(&mut self) {
        let counted = self.value.as_ptr().cast::<Counted<T>>();
        // SAFETY: this share lives until the subtraction.
        let count = unsafe { &(*counted).count };
        // Acquire: see the type.
        if count.load(Ordering::Acquire) != 1 {
            // Release: see the type.
            if count.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            // Acquire: see the type.
            fence(Ordering::Acquire);
        }
        // SAFETY: it comes from a box, this was the last share, and nobody can add one.
        drop(unsafe { Box::from_raw(counted) });
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Share<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
