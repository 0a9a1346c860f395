//! Where a job works, and what all jobs need.

use crate::random::Random;
use std::path::Path;

/// Where a job works, and which part of its size is enough: 1 is the whole.
pub struct Site<'a> {
    pub root: &'a Path,
    pub part: usize,
}

/// Bytes that cannot be made smaller.
pub fn noise(bytes: usize) -> Vec<u8> {
    let mut random = Random::new(9);
    (0..bytes).map(|_| random.draw() as u8).collect()
}
