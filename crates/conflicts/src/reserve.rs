//! A reserve of free memory, as a long-running thread has.
//!
//! The allocator (mimalloc 3) gives a full page away, and lets the next thread that wants memory
//! take it once something in it is free. A thread with free blocks of its own asks for none. So a
//! window of many calls that frees shares nothing with the next one that allocates.

/// The smallest and the largest blocks, in bytes.
const SMALLEST: usize = 16;
const LARGEST: usize = 8 << 10;
/// Free blocks of each size. What a window retires comes back after two epochs, so up to three
/// blocks of a size are needed for each of its calls.
const FREE: usize = 3 * super::case::LONG;
/// Free blocks of sizes beyond this many bytes, which no call allocates each time, except for the
/// size of a file's page with its header and of a block of descriptors.
const FEW: usize = 64;
const SMALL: usize = 1 << 10;
const LIKE_PAGES: std::ops::RangeInclusive<usize> = 4_096..=5_120;
/// One block of this many is kept, so that no page becomes empty.
const KEPT: usize = 8;

/// Blocks between free ones. The thread that made it drops it.
pub struct Reserve(Vec<Vec<u8>>);

impl Reserve {
    /// Makes a reserve for a window of many calls on this thread.
    pub fn new() -> Reserve {
        let mut kept = Vec::new();
        let mut power = SMALLEST;
        while power < LARGEST {
            // The allocator has four sizes for each power of two.
            for size in (4..8).map(|quarters| power / 4 * quarters) {
                let is_common = size <= SMALL || LIKE_PAGES.contains(&size);
                let free = if is_common { FREE } else { FEW };
                let blocks = (0..free + free / KEPT).map(|_| Vec::with_capacity(size));
                let blocks: Vec<Vec<u8>> = blocks.collect();
                kept.extend(blocks.into_iter().step_by(KEPT));
            }
            power *= 2;
        }
        Reserve(kept)
    }
}

impl std::fmt::Debug for Reserve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reserve({} blocks)", self.0.len())
    }
}
