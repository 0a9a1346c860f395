//! Which inode numbers have come.

use super::ROOT;
use std::collections::BTreeMap;

/// Numbers in one piece of the set.
const PIECE: u64 = 4096;

/// The numbers of inodes that have come: each once, none above the last that was used. They mostly
/// lie close together, so they are a bit each.
#[derive(Debug)]
pub struct SeenNumbers {
    last: u64,
    pieces: BTreeMap<u64, Box<[u64; (PIECE / 64) as usize]>>,
}

impl SeenNumbers {
    /// None yet, of those up to `last`.
    pub fn new(last: u64) -> SeenNumbers {
        SeenNumbers {
            last,
            pieces: BTreeMap::new(),
        }
    }

    /// Adds the number of an inode; whether it may have it. A second one with the same would take
    /// the place of the first.
    pub fn take(&mut self, number: u64, is_root: bool) -> bool {
        let may_be = (1..=self.last).contains(&number) && is_root == (number == ROOT);
        may_be && self.insert(number)
    }

    fn insert(&mut self, number: u64) -> bool {
        let (piece, bit) = (number / PIECE, number % PIECE);
        let words = self.pieces.entry(piece);
        let words = words.or_insert_with(|| Box::new([0; (PIECE / 64) as usize]));
        let (word, mask) = (&mut words[(bit / 64) as usize], 1 << (bit % 64));
        let is_new = *word & mask == 0;
        *word |= mask;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_once_and_none_comes_above_the_last() {
        let mut seen = SeenNumbers::new(1 << 40);
        for number in [2, 63, 64, 4095, 4096, 1 << 40] {
            assert!(seen.take(number, false), "{number}");
            assert!(!seen.take(number, false), "{number}");
        }
        assert!(seen.take(3, false));
        for number in [0, ROOT, (1 << 40) + 1, u64::MAX] {
            assert!(!seen.take(number, false), "{number}");
        }
        assert!(!seen.take(5, true));
        assert!(seen.take(ROOT, true));
    }
}
