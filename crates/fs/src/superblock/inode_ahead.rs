//! How many inodes a fetch brings along. Inodes that were made together have neighbouring numbers,
//! and a walk over a tree wants them one after the other, in the order of names or of a listing.
//!
//! Fetches that follow each other closely double what is brought, a single one brings nothing.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use std::ops::Range;

/// Numbers of one place: those that a core takes at a time.
const BLOCK: u64 = 1024;
const PLACES: u64 = 32;
/// Numbers between two fetches that follow each other, at most.
const NEAR: u64 = 128;
/// Inodes that are fetched at once, as a power of two.
const MOST_LOG2: u64 = 6;
/// Bits of a place below the number.
const LOG2_BITS: u32 = 3;

/// The last fetch of each place: its number, and how many inodes it brought as a power of two.
/// Relaxed: a fetch that is lost costs a smaller one.
#[derive(Default)]
pub(crate) struct InodeAhead {
    places: [AtomicU64; PLACES as usize],
}

impl InodeAhead {
    /// The inodes to fetch when `ino` is missing, itself among them.
    pub fn around(&self, ino: u64) -> Range<u64> {
        let place = &self.places[(ino / BLOCK % PLACES) as usize];
        let before = place.load(Relaxed);
        let (last, log2) = (before >> LOG2_BITS, before & ((1 << LOG2_BITS) - 1));
        let log2 = match last != 0 && ino.abs_diff(last) <= NEAR {
            true => (log2 + 1).min(MOST_LOG2),
            false => 0,
        };
        place.store(ino << LOG2_BITS | log2, Relaxed);
        // A part of the numbers that begins at a multiple of its length: where numbers come in no
        // order all of it is wanted soon.
        let first = ino >> log2 << log2;
        first..first + (1 << log2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetches_that_follow_each_other_bring_more_and_single_ones_nothing() {
        let ahead = InodeAhead::default();
        let lengths = |numbers: &[u64]| -> Vec<u64> {
            let around = numbers.iter().map(|&ino| ahead.around(ino));
            around.map(|range| range.end - range.start).collect()
        };
        assert_eq!(lengths(&[2048, 2049, 2050]), [1, 2, 4]);
        // In the order of a listing.
        assert_eq!(lengths(&[2100, 2060, 2080, 2070]), [8, 16, 32, 64]);
        assert_eq!(ahead.around(2111), 2048 + 64 - 64..2048 + 64);
        // Another core's numbers do not disturb it, those of far away begin anew.
        assert_eq!(lengths(&[5000, 2130, 2900, 2901]), [1, 64, 1, 2]);
    }

    #[test]
    fn a_range_has_the_number_that_is_missing() {
        let ahead = InodeAhead::default();
        for ino in (4096..6000).step_by(7) {
            let range = ahead.around(ino);
            assert!(range.contains(&ino) && range.end - range.start <= 1 << MOST_LOG2);
        }
    }
}
