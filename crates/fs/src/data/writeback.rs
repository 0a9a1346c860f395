//! Write-back to the backend, and eviction from memory.

use hearth_sync::epoch::Guard;
use hearth_sync::primitive::atomic::Ordering;

use super::resident::Resident;
use super::root::Data;
use super::slot_state::SlotState;
use super::span::{PAGE, PAGE_BYTES, PAGES};
use super::tree::LeafEntry;
use std::ops::Range;

/// Most pages that are looked at under one guard: a cut waits for it.
const LOOK: usize = 32 << 10;

/// Pages that a write-back is to save.
#[derive(Debug, Default)]
pub(crate) struct DirtyPages {
    /// Runs of pages with content, by rising index.
    pub written: Vec<Range<u64>>,
    /// Runs of pages that are allocated and were never written.
    pub unwritten: Vec<Range<u64>>,
    /// How many have content.
    pub count: usize,
    /// How many are dirty behind the size.
    pub behind: u64,
}

#[cfg(test)]
impl DirtyPages {
    /// One for each page, by rising index.
    fn into_single(self) -> Vec<DirtyPages> {
        let single = |index| index..index + 1;
        let written = self.written.into_iter().flatten().map(|index| DirtyPages {
            written: vec![single(index)],
            count: 1,
            ..DirtyPages::default()
        });
        let unwritten = self
            .unwritten
            .into_iter()
            .flatten()
            .map(|index| DirtyPages {
                unwritten: vec![single(index)],
                ..DirtyPages::default()
            });
        let mut all: Vec<DirtyPages> = written.chain(unwritten).collect();
        all.sort_by_key(DirtyPages::first);
        all
    }

    fn first(&self) -> u64 {
        let runs = self.written.first().or(self.unwritten.first());
        runs.map_or(u64::MAX, |run| run.start)
    }
}

impl Data {
    /// Adds the dirty pages of `pages` to `found`, until that has `most` with content or many pages
    /// were looked at. Returns where to go on, if not all were looked at. Those that were never
    /// written are clean from here on.
    ///
    /// Pages from `size` on come from writes that have not published the size yet: they are left
    /// out, and dirty.
    ///
    /// Inside the gate, one write-back of a file at a time: a second one would find clean what the
    /// first has not saved yet.
    pub fn find_dirty(
        &self,
        pages: Range<u64>,
        most: usize,
        size: u64,
        found: &mut DirtyPages,
        g: &Guard,
    ) -> Option<u64> {
        let range = pages.start.min(PAGES)..pages.end.min(PAGES);
        for (looked, (index, slot)) in self.walk(range, g).enumerate() {
            if found.count == most || looked == LOOK {
                return Some(index);
            }
            match slot.page(g) {
                Some(page) if index * PAGE >= size => found.behind += u64::from(page.is_dirty()),
                Some(page) if page.is_dirty() => {
                    add(&mut found.written, index);
                    found.count += 1;
                }
                // A write may fill the slot meanwhile: then its page is dirty and the next
                // write-back takes it.
                None if slot
                    .state
                    .replace(SlotState::UnwrittenDirty, SlotState::Unwritten) =>
                {
                    add(&mut found.unwritten, index);
                }
                _ => {}
            }
        }
        None
    }

    /// Counts the pages of `pages` with content that the backend has not got, until many were
    /// looked at. Returns where to go on, if not all were. Only with the gate closed.
    pub fn count_unclean(&self, pages: Range<u64>, g: &Guard) -> (u64, Option<u64>) {
        let (range, mut count) = (pages.start.min(PAGES)..pages.end.min(PAGES), 0);
        for (looked, (index, slot)) in self.walk(range, g).enumerate() {
            if looked == LOOK {
                return (count, Some(index));
            }
            count += u64::from(slot.page(g).is_some_and(|page| !page.is_clean()));
        }
        (count, None)
    }

    /// Appends the bytes of a page that [`Data::find_dirty`] found, and marks it as under
    /// write-back: it stays in memory until [`Data::end_save`], and is dirty again if it is written
    /// to meanwhile. One that was taken away since is zeros: the write-back will begin again.
    ///
    /// Bytes from `size` on come from writes that have not published the size yet: they are left
    /// out, and dirty. Returns whether there were any. Inside the gate.
    pub fn save_page(&self, index: u64, size: u64, out: &mut Vec<u8>, g: &Guard) -> bool {
        let begin = out.len();
        out.resize(begin + PAGE_BYTES, 0);
        let Some(page) = self.slot(index, g).and_then(|slot| slot.page(g)) else {
            return false;
        };
        page.begin_flush();
        let bytes = &mut out[begin..];
        page.copy(bytes);
        let end = size.saturating_sub(index * PAGE).min(PAGE) as usize;
        let is_behind = bytes[end..].iter().any(|&byte| byte != 0);
        if is_behind {
            bytes[end..].fill(0);
            page.set_dirty();
        }
        is_behind
    }

    /// The bytes of a page in memory.
    pub fn page_bytes(&self, index: u64, g: &Guard) -> Option<Box<[u8]>> {
        let page = self.slot(index, g)?.page(g)?;
        let mut bytes = [0; PAGE_BYTES];
        page.copy(&mut bytes);
        Some(bytes.into())
    }

    /// A write-back in which `write` gets one page after the other, for tests.
    #[cfg(test)]
    pub fn flush<E, W>(&self, write: &mut W) -> Result<u64, E>
    where
        W: FnMut(u64, &[u8]) -> Result<(), E>,
    {
        use hearth_sync::epoch::pin;
        let (mut flushed, mut from) = (0, Some(0));
        while let Some(start) = from {
            let mut pages = DirtyPages::default();
            from = self.find_dirty(start..PAGES, 1, u64::MAX, &mut pages, &pin());
            let mut left: Vec<DirtyPages> = pages.into_single();
            left.reverse();
            while let Some(page) = left.pop() {
                let index = page.first();
                let mut bytes = Vec::new();
                self.save_page(index, u64::MAX, &mut bytes, &pin());
                let written = write(index, &bytes);
                self.end_save(&page, written.is_ok().then_some(0), &pin());
                if let Err(error) = written {
                    left.iter()
                        .for_each(|page| self.end_save(page, None, &pin()));
                    return Err(error);
                }
                flushed += 1;
            }
        }
        Ok(flushed)
    }

    /// Ends the write-back of `pages`: they were recorded in the epoch with these low bits, or they
    /// are dirty again.
    pub fn end_save(&self, pages: &DirtyPages, recorded: Option<u8>, g: &Guard) {
        for index in pages.written.iter().cloned().flatten() {
            let page = self.slot(index, g).and_then(|slot| slot.page(g));
            if let Some(page) = page.filter(|page| page.is_flushing()) {
                page.end_flush(recorded);
            }
        }
        let unwritten = pages.unwritten.iter().filter(|_| recorded.is_none());
        for index in unwritten.cloned().flatten() {
            if let Some(slot) = self.slot(index, g) {
                slot.state
                    .replace(SlotState::Unwritten, SlotState::UnwrittenDirty);
            }
        }
    }

    /// Evicts the pages of `range` that are at the backend, used or not, and returns how many. As
    /// [`Data::evict`] otherwise.
    pub fn evict_range(&self, range: Range<u64>, has: impl Fn(u8) -> bool, g: &Guard) -> u64 {
        let mut evicted = 0;
        for (_, slot) in self.walk(range, g) {
            if slot.page(g).is_some_and(|page| page.is_at_backend(&has)) {
                self.status.set_partial();
                slot.clear(SlotState::AtBackend, g);
                evicted += 1;
            }
        }
        evicted
    }

    /// Evicts up to `want` pages that are clean and were not used since the last call, and the
    /// leaves that have none left; returns what left memory. Only for files whose backend can give
    /// them back; gate closed. `has`: whether the backend has the epoch with these low bits. What
    /// was recorded later stays. `is_settled`: the backend has heard of every operation on the
    /// file.
    ///
    /// The clock algorithm: every call goes on where the last one stopped, if the file has more
    /// than 64 pages, and goes around the file once at most; a used page stays and loses its
    /// reference bit.
    pub fn evict(
        &self,
        want: u64,
        has: impl Fn(u8) -> bool,
        is_settled: bool,
        g: &Guard,
    ) -> Resident {
        let hand = self.far.load(g).map(|far| &far.hand);
        // Relaxed: the gate is closed, and its lock orders one call after the other.
        let start = hand.map_or(0, |hand| hand.load(Ordering::Relaxed));
        let (mut gone, mut seen) = (Resident::default(), 0..PAGES);
        for (index, slot) in self.walk(start..PAGES, g).chain(self.walk(0..start, g)) {
            if gone.pages == want {
                if let Some(hand) = hand {
                    // Relaxed: see `start`.
                    hand.store(index, Ordering::Relaxed);
                }
                if index >= start {
                    seen = start..index;
                }
                break;
            }
            if slot.page(g).is_some_and(|page| page.is_evictable(&has)) {
                self.status.set_partial();
                slot.clear(SlotState::AtBackend, g);
                gone.pages += 1;
            }
        }
        gone.nodes = self.evict_leaves(&seen, is_settled, g);
        gone
    }

    /// Drops the leaves of the far trees with pages in `range` that nothing is lost with. Returns
    /// how many.
    fn evict_leaves(&self, range: &Range<u64>, is_settled: bool, g: &Guard) -> u64 {
        let mut gone = 0;
        let Some(far) = self.far.load(g).filter(|_| !self.is_complete()) else {
            return gone;
        };
        far.sweep(range, g, &mut |_, leaf| match leaf {
            LeafEntry::Present(leaf) => leaf.evict(is_settled, g).inspect(|_| gone += 1),
            LeafEntry::Absent(_) => None,
        });
        gone
    }
}

/// Adds a page behind all pages of `runs`.
fn add(runs: &mut Vec<Range<u64>>, index: u64) {
    match runs.last_mut() {
        Some(run) if run.end == index => run.end += 1,
        _ => runs.push(index..index + 1),
    }
}
