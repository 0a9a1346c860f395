//! A deferred closure of three words, stored without a box.

use std::mem::MaybeUninit;

/// A closure that runs once, later. It does not run when it is only dropped.
pub(super) struct Deferred {
    call: unsafe fn(*mut u8),
    data: MaybeUninit<[usize; 3]>,
}

// SAFETY: the caller of `new` promises that the closure may run on any thread, see `Guard::defer`.
unsafe impl Send for Deferred {}

impl Deferred {
    /// # Safety
    ///
    /// `work` may run on any thread.
    pub unsafe fn new<F: FnOnce() + 'static>(work: F) -> Deferred {
        /// # Safety
        ///
        /// `data` holds an `F` that nobody uses again.
        unsafe fn call<F: FnOnce()>(data: *mut u8) {
            // SAFETY: as the caller promises.
            unsafe { data.cast::<F>().read()() };
        }
        const {
            assert!(size_of::<F>() <= size_of::<[usize; 3]>());
            assert!(align_of::<F>() <= align_of::<usize>());
        }
        let mut data = MaybeUninit::<[usize; 3]>::uninit();
        // SAFETY: the closure fits and is aligned, as is checked above.
        unsafe { data.as_mut_ptr().cast::<F>().write(work) };
        Deferred {
            call: call::<F>,
            data,
        }
    }

    pub fn run(mut self) {
        // SAFETY: `data` holds the closure that `call` was instantiated for, and `self` ends here.
        unsafe { (self.call)(self.data.as_mut_ptr().cast()) };
    }
}
