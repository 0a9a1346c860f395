//! Which slot beyond the first block is the lowest free one, and which core owns which block.

use super::block::{BLOCK_SLOTS, BLOCKS_MAX, slot};

/// What the allocation lock of a table protects.
///
/// Under the lowest-first policy every slot beyond the first block becomes used or free under this
/// lock too, and then:
///
/// 1. every slot from the first of block 1 to below `next` is used;
/// 2. a block other than the first is in `full` exactly when all its slots are used.
///
/// Under the per-core policy `next` does not change and `full` is empty: neither says anything.
pub(super) struct Alloc {
    next: u32,
    full: Set,
    /// Blocks that a core allocates from. Per-core policy only.
    owned: Set,
    /// Where the search for a block to own goes on. Per-core policy only.
    scan_from: u32,
    /// The core that owned each block last; as long as the highest block ever owned requires.
    /// Per-core policy only.
    last_owners: Vec<u32>,
}

/// Blocks that a search looks at; it checks a few of them for free slots.
const SCANNED: u32 = 1024;

/// A set of block numbers, as long as its highest member requires.
#[derive(Default)]
struct Set(Vec<u64>);

impl Default for Alloc {
    fn default() -> Alloc {
        Alloc {
            next: BLOCK_SLOTS,
            full: Set::default(),
            owned: Set::default(),
            scan_from: 0,
            last_owners: Vec::new(),
        }
    }
}

impl Alloc {
    /// Where the search for the lowest free slot from `min` on begins; it is beyond the first
    /// block.
    pub(super) fn start(&self, min: u32) -> u32 {
        let from = min.max(self.next);
        let block = from / BLOCK_SLOTS;
        match self.full.first_absent(block) {
            same if same == block => from,
            later => later * BLOCK_SLOTS,
        }
    }

    /// Records that `slot`, beyond the first block, is used now and was the lowest free one from
    /// `min` on.
    pub(super) fn mark_used(&mut self, slot: u32, min: u32, block_is_full: bool) {
        if min <= self.next {
            self.next = slot + 1;
        }
        if block_is_full {
            self.full.insert(slot / BLOCK_SLOTS);
        }
    }

    /// Records that `slot`, beyond the first block, is used now, after a request for its number.
    pub(super) fn mark_taken(&mut self, slot: u32, block_is_full: bool) {
        if slot == self.next {
            self.next = slot + 1;
        }
        if block_is_full {
            self.full.insert(slot / BLOCK_SLOTS);
        }
    }

    /// Records that `slot`, beyond the first block, is free now.
    pub(super) fn mark_free(&mut self, slot: u32) {
        self.next = self.next.min(slot);
        self.full.remove(slot / BLOCK_SLOTS);
    }

    /// Chooses a block for `core` to own in slot of `old`. A few blocks that it owned before are
    /// checked for free slots first, then the table grows by one, and only if it may not grow are
    /// all blocks checked. So cores do not contend for blocks whose descriptors another core opens
    /// and closes.
    pub(super) fn own(
        &mut self,
        core: u32,
        old: Option<u32>,
        limit: u32,
        has_space: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        const CHECKS: u32 = 16;
        if let Some(old) = old {
            self.owned.remove(old);
        }
        let blocks = slot(limit).div_ceil(BLOCK_SLOTS).min(BLOCKS_MAX);
        let known = (self.last_owners.len() as u32).min(blocks);
        let chosen = self
            .scan(known, CHECKS, Some(core), &has_space)
            .or_else(|| (known < blocks).then_some(known))
            .or_else(|| self.scan(known, known, None, &has_space))?;
        match self.last_owners.get_mut(chosen as usize) {
            Some(last_owner) => *last_owner = core,
            None => self.last_owners.push(core),
        }
        self.owned.insert(chosen);
        Some(chosen)
    }

    /// Checks up to `checks` of the first `known` blocks, from where the last search ended; only
    /// those of `last_owner`, if one is given.
    fn scan(
        &mut self,
        known: u32,
        checks: u32,
        last_owner: Option<u32>,
        has_space: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut left = checks;
        for _ in 0..known.min(SCANNED.max(checks)) {
            let block = self.scan_from % known;
            self.scan_from = block + 1;
            let is_other =
                last_owner.is_some_and(|last_owner| self.last_owners[block as usize] != last_owner);
            if is_other || self.owned.contains(block) {
                continue;
            }
            if has_space(block) {
                return Some(block);
            }
            left -= 1;
            if left == 0 {
                break;
            }
        }
        None
    }
}

impl Set {
    fn contains(&self, member: u32) -> bool {
        self.0
            .get(word(member))
            .is_some_and(|word| word & bit(member) != 0)
    }

    fn insert(&mut self, member: u32) {
        if self.0.len() <= word(member) {
            self.0.resize(word(member) + 1, 0);
        }
        self.0[word(member)] |= bit(member);
    }

    fn remove(&mut self, member: u32) {
        if let Some(word) = self.0.get_mut(word(member)) {
            *word &= !bit(member);
        }
    }

    /// The lowest number from `from` on that is not a member.
    fn first_absent(&self, from: u32) -> u32 {
        let mut below = bit(from) - 1;
        for (index, members) in self.0.iter().enumerate().skip(word(from)) {
            let absent = !members & !below;
            if absent != 0 {
                return index as u32 * u64::BITS + absent.trailing_zeros();
            }
            below = 0;
        }
        from.max(self.0.len() as u32 * u64::BITS)
    }
}

fn word(member: u32) -> usize {
    (member / u64::BITS) as usize
}

fn bit(member: u32) -> u64 {
    1 << (member % u64::BITS)
}
