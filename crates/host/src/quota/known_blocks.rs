//! What is known of the data and the holes of a file, so that not each write asks for them.

use hearth::BLOCK;
use std::ops::Range;

/// Blocks of a file as they were seen or written last, by operations of the mount. The record of
/// the inode has it, and its lock protects it.
///
/// Others may change the file behind the mount. Where they have filled a hole, too much is reserved
/// until the file is settled. Where they have freed data, that is charged until the file is
/// settled, which is when all is forgotten that does not agree with what the host tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownBlocks {
    data: Span,
    hole: Span,
    /// Whether nothing is allocated in `hole`, once that was asked.
    is_bare: Option<bool>,
    /// The last answer was a hole: the next write is likely to go into one as well.
    pub goes_into_holes: bool,
}

/// Blocks from and to; none if both are equal.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u64,
    end: u64,
}

impl KnownBlocks {
    /// Whether any data or hole is known.
    pub fn is_any(&self) -> bool {
        self.data.blocks() + self.hole.blocks() > 0
    }

    /// Where the data ends that a block is known to belong to.
    pub fn data_to(&self, block: u64) -> Option<u64> {
        self.data.has(block).then_some(self.data.end)
    }

    /// Where the hole ends that a block is known to belong to.
    pub fn hole_to(&self, block: u64) -> Option<u64> {
        self.hole.has(block).then_some(self.hole.end)
    }

    /// These blocks were seen to be data.
    pub fn saw_data(&mut self, blocks: Range<u64>) {
        self.goes_into_holes = false;
        self.data = Span::of(&blocks);
    }

    /// These blocks were seen to be a hole.
    pub fn saw_hole(&mut self, blocks: Range<u64>) {
        self.goes_into_holes = true;
        self.hole = Span::of(&blocks);
        self.is_bare = None;
    }

    /// These blocks may not be a hole any more. Of what is left the longer part stays known.
    pub fn may_fill(&mut self, blocks: &Range<u64>) {
        if blocks.start >= self.hole.end || blocks.end <= self.hole.start {
            return;
        }
        let before = self.hole.start..blocks.start.max(self.hole.start);
        let after = blocks.end.min(self.hole.end)..self.hole.end;
        let is_longer = after.end - after.start >= before.end - before.start;
        self.hole = Span::of(if is_longer { &after } else { &before });
    }

    /// These blocks were written.
    pub fn wrote(&mut self, blocks: &Range<u64>) {
        if blocks.start >= blocks.end {
            return;
        }
        let touches = blocks.start <= self.data.end && self.data.start <= blocks.end;
        let new = Span::of(blocks);
        self.data = match touches {
            true => Span {
                start: self.data.start.min(new.start),
                end: self.data.end.max(new.end),
            },
            false if new.blocks() >= self.data.blocks() => new,
            false => self.data,
        };
    }

    /// Something else may have changed.
    pub fn forget(&mut self) {
        *self = KnownBlocks {
            goes_into_holes: self.goes_into_holes,
            ..KnownBlocks::default()
        };
    }

    /// Whether these holes are one in which nothing is allocated, as space that was asked for in
    /// advance is. `ask` says so of a hole, in bytes, that was not asked for yet.
    pub fn is_bare(&mut self, holes: &[Range<u64>], ask: impl FnOnce(&Range<u64>) -> bool) -> bool {
        let [one] = holes else {
            return false;
        };
        if !self.hole.has(one.start) || one.end > self.hole.end {
            return false;
        }
        let hole = self.hole.start.saturating_mul(BLOCK)..self.hole.end.saturating_mul(BLOCK);
        *self.is_bare.get_or_insert_with(|| ask(&hole))
    }
}

impl Span {
    fn of(blocks: &Range<u64>) -> Span {
        Span {
            start: blocks.start,
            end: blocks.end.max(blocks.start),
        }
    }

    fn has(self, block: u64) -> bool {
        (self.start..self.end).contains(&block)
    }

    fn blocks(self) -> u64 {
        self.end - self.start
    }
}
