//! The blocks of one table, found by number without a lock and never moved.

use std::array;

use hearth_sync::primitive::OnceLock;

use super::alloc::Alloc;
use super::block::{BLOCKS_MAX, Block};

const SEGMENTS: usize = (BLOCKS_MAX - 1).ilog2() as usize + 1;

/// Block 0 is inline; segment `s` holds the blocks `2^s..2^(s+1)`.
///
/// A table grows by publishing one more block, and now and then a segment of pointers to blocks;
/// neither changes afterwards. Nothing is copied and no descriptor moves, so growth is invisible to
/// readers and installers. Each block is made by the core that takes it: no core writes the blocks
/// of another.
pub(super) struct Blocks<T: Send + Sync + 'static> {
    first: Block<T>,
    segments: [OnceLock<Segment<T>>; SEGMENTS],
}

type Segment<T> = Box<[OnceLock<Box<Block<T>>>]>;

impl<T: Send + Sync + 'static> Blocks<T> {
    pub(super) fn new() -> Blocks<T> {
        Blocks {
            first: Block::new(),
            segments: array::from_fn(|_| OnceLock::new()),
        }
    }

    /// The block 0, which is always there.
    pub(super) fn first(&self) -> &Block<T> {
        &self.first
    }

    /// The block of this number, if the table has grown that far.
    pub(super) fn get(&self, number: u32) -> Option<&Block<T>> {
        let Some(segment) = number.checked_ilog2() else {
            return Some(&self.first);
        };
        let blocks = self.segments.get(segment as usize)?.get()?;
        let block = blocks.get((number - (1 << segment)) as usize)?.get()?;
        Some(block)
    }

    /// The block of this number, which is below [`BLOCKS_MAX`]; grows the table if needed. Growing
    /// needs the same lock as allocating, so it is never contended.
    pub(super) fn grow_to(&self, _growing: &mut Alloc, number: u32) -> &Block<T> {
        let Some(segment) = number.checked_ilog2() else {
            return &self.first;
        };
        let size = 1 << segment;
        let blocks = self.segments[segment as usize]
            .get_or_init(|| (0..size).map(|_| OnceLock::new()).collect());
        blocks[(number - size) as usize].get_or_init(|| Box::new(Block::new()))
    }

    /// All blocks there are, with their numbers, in order. Blocks may be missing in between.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Block<T>)> {
        let segments = (0..)
            .zip(&self.segments)
            .filter_map(|(s, cell)| Some((s, cell.get()?)));
        let later = segments.flat_map(|(s, blocks)| (1u32 << s..).zip(blocks.iter()));
        let later = later.filter_map(|(number, cell)| Some((number, &**cell.get()?)));
        std::iter::once((0, &self.first)).chain(later)
    }
}
