//! An allocator that counts.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

/// Slots that threads count in; two threads rarely share one.
const SLOTS: usize = 64;

static LIVE: [LiveSlot; SLOTS] = [const { LiveSlot::new() }; SLOTS];
/// The slot of the next new thread.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static SLOT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Another allocator, whose allocations are counted for each thread by itself, and with `IS_LIVE`
/// what is allocated in all: what was retired and not yet freed, and what was leaked, is memory
/// that is still there.
pub struct Counting<A, const IS_LIVE: bool = false>(pub A);

/// How often the calling thread has allocated (or moved what it had allocated) so far; stays 0 in
/// a program whose allocator is not [`Counting`].
pub fn of_this_thread() -> u64 {
    COUNT.get()
}

/// What is allocated at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Bytes that were asked for.
    pub bytes: i64,
    /// Allocations.
    pub blocks: i64,
}

impl Live {
    /// Everything now. Exact when nobody allocates meanwhile.
    ///
    /// Zero in a program whose allocator does not count it.
    pub fn now() -> Live {
        // Relaxed: sums of counters order nothing.
        let sum = |live: Live, slot: &LiveSlot| Live {
            bytes: live.bytes + slot.bytes.load(Relaxed),
            blocks: live.blocks + slot.blocks.load(Relaxed),
        };
        LIVE.iter().fold(Live::default(), sum)
    }
}

#[repr(align(128))]
struct LiveSlot {
    bytes: AtomicI64,
    blocks: AtomicI64,
}

impl LiveSlot {
    const fn new() -> LiveSlot {
        LiveSlot {
            bytes: AtomicI64::new(0),
            blocks: AtomicI64::new(0),
        }
    }
}

impl<A, const IS_LIVE: bool> Counting<A, IS_LIVE> {
    /// Counts a call, and what there is more of since.
    fn count(&self, calls: u64, bytes: i64, blocks: i64) {
        if calls > 0 {
            // A thread that is ending may allocate after its own variables are gone.
            let _ = COUNT.try_with(|count| count.set(count.get() + calls));
        }
        if IS_LIVE {
            if SLOT.get() == usize::MAX {
                // Relaxed: any number will do.
                SLOT.set(NEXT.fetch_add(1, Relaxed) % SLOTS);
            }
            // Relaxed: see `Live::now`.
            LIVE[SLOT.get()].bytes.fetch_add(bytes, Relaxed);
            LIVE[SLOT.get()].blocks.fetch_add(blocks, Relaxed);
        }
    }
}

// SAFETY: every call is handed on as it is; the count beside it allocates nothing.
unsafe impl<A: GlobalAlloc, const IS_LIVE: bool> GlobalAlloc for Counting<A, IS_LIVE> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(1, layout.size() as i64, 1);
        // SAFETY: the caller's promises are those that the inner allocator wants.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.count(0, -(layout.size() as i64), -1);
        // SAFETY: as above; what is given back came from the inner allocator.
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(1, layout.size() as i64, 1);
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.count(1, size as i64 - layout.size() as i64, 0);
        // SAFETY: as above.
        unsafe { self.0.realloc(at, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn allocations_are_counted_and_what_is_freed_elsewhere_is_counted_once() {
        // The tests' own allocator is another one: nobody else counts.
        let counting = &Counting::<_, true>(System);
        let layout = Layout::from_size_align(64, 8).unwrap();
        let before = of_this_thread();
        // SAFETY: the layout has a size; what is allocated is given back once.
        let at = unsafe {
            let at = counting.alloc_zeroed(layout);
            assert_eq!(*at.add(63), 0);
            at.write(7);
            counting.realloc(at, layout, 128) as usize
        };
        assert_eq!(of_this_thread() - before, 2);
        let (bytes, blocks) = (128, 1);
        assert_eq!(Live::now(), Live { bytes, blocks });
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // SAFETY: the block is from this allocator, with this layout.
                unsafe {
                    assert_eq!(*(at as *mut u8), 7);
                    counting.dealloc(at as *mut u8, Layout::from_size_align(128, 8).unwrap());
                }
            });
        });
        assert_eq!(Live::now(), Live::default());
    }
}
