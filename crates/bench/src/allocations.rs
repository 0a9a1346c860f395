//! An allocator that counts.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Another allocator, whose allocations are counted for each thread by itself.
pub struct Counting<A>(pub A);

/// How often the calling thread has allocated (or moved what it had allocated) so far; stays 0 in
/// a program whose allocator is not [`Counting`].
pub fn of_this_thread() -> u64 {
    COUNT.get()
}

fn one_more() {
    // A thread that is ending may allocate after its own variables are gone.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is handed on as it is; the count beside it allocates nothing.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        one_more();
        // SAFETY: the caller's promises are those that the inner allocator wants.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above; what is given back came from the inner allocator.
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        one_more();
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        one_more();
        // SAFETY: as above.
        unsafe { self.0.realloc(at, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn allocations_are_counted_and_usable() {
        let counting = Counting(System);
        let layout = Layout::from_size_align(64, 8).unwrap();
        let before = of_this_thread();
        // SAFETY: the layout has a size; what is allocated is given back once.
        unsafe {
            let at = counting.alloc_zeroed(layout);
            assert_eq!(*at.add(63), 0);
            at.write(7);
            let at = counting.realloc(at, layout, 128);
            assert_eq!(*at, 7);
            counting.dealloc(at, Layout::from_size_align(128, 8).unwrap());
        }
        assert_eq!(of_this_thread() - before, 2);
    }
}
