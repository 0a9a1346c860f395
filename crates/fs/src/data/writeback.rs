//! Write-back to the backend, and eviction from memory.

use hearth_sync::epoch::Guard;
use hearth_sync::primitive::atomic::Ordering;

use super::page::Page;
use super::root::Data;
use super::slot_state::SlotState;
use super::span::{PAGE, PAGE_BYTES, PAGES};

/// A page under write-back.
pub(crate) struct SavedPage {
    /// Its index.
    pub index: u64,
    /// A copy of its bytes; `None` if it is allocated and was never written.
    pub bytes: Option<Box<[u8]>>,
}

impl Data {
    /// Copies up to `most` dirty pages from page `from` on, by rising index, and marks them as
    /// under write-back: they stay in memory until [`Data::end_save`]. A page written to meanwhile
    /// is dirty again.
    ///
    /// Bytes from `size` on come from writes that have not published the size yet: they are left
    /// out, and dirty. The flag says whether there were any.
    ///
    /// Inside the gate, one write-back of a file at a time: a second one would find clean what the
    /// first has not saved yet.
    pub fn begin_save(
        &self,
        from: u64,
        most: usize,
        size: u64,
        g: &Guard,
    ) -> (Vec<SavedPage>, bool) {
        let (mut pages, mut is_behind) = (Vec::new(), false);
        for (index, slot) in self.walk(from.min(PAGES)..PAGES, g) {
            if pages.len() == most {
                break;
            }
            match slot.page(g) {
                Some(page) if index * PAGE >= size => is_behind |= page.is_dirty(),
                Some(page) if page.begin_flush() => {
                    let mut bytes = [0; PAGE_BYTES];
                    page.copy(&mut bytes);
                    let end = (size - index * PAGE).min(PAGE) as usize;
                    if bytes[end..].iter().any(|&byte| byte != 0) {
                        bytes[end..].fill(0);
                        page.set_dirty();
                        is_behind = true;
                    }
                    let bytes = Some(bytes.into());
                    pages.push(SavedPage { index, bytes });
                }
                // A write may fill the slot meanwhile: then its page is dirty and the next
                // write-back takes it.
                None if slot
                    .state
                    .replace(SlotState::UnwrittenDirty, SlotState::Unwritten) =>
                {
                    pages.push(SavedPage { index, bytes: None });
                }
                _ => {}
            }
        }
        (pages, is_behind)
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
    pub fn flush<E>(&self, write: &mut dyn FnMut(u64, &[u8]) -> Result<(), E>) -> Result<u64, E> {
        let (mut flushed, mut from) = (0, 0);
        loop {
            let (pages, _) = self.begin_save(from, 1, u64::MAX, &hearth_sync::epoch::pin());
            let Some(page) = pages.first() else {
                return Ok(flushed);
            };
            let zeros = [0; PAGE_BYTES];
            let written = write(page.index, page.bytes.as_deref().unwrap_or(&zeros));
            self.end_save(&pages, written.is_ok(), &hearth_sync::epoch::pin());
            written?;
            flushed += 1;
            from = page.index + 1;
        }
    }

    /// Ends the write-back of `pages`. Unless they are `saved` they are dirty again.
    pub fn end_save(&self, pages: &[SavedPage], saved: bool, g: &Guard) {
        for saving in pages {
            let Some(slot) = self.slot(saving.index, g) else {
                continue;
            };
            match slot.page(g) {
                Some(page) if page.is_flushing() => page.end_flush(saved),
                _ if !saved => {
                    slot.state
                        .replace(SlotState::Unwritten, SlotState::UnwrittenDirty);
                }
                _ => {}
            }
        }
    }

    /// Evicts up to `want` pages that are clean and were not used since the last call, and returns
    /// how many. Only for files whose backend can give them back; gate closed.
    ///
    /// The clock algorithm: every call goes on where the last one stopped, if the file has more
    /// than 64 pages, and goes around the file once at most; a used page stays and loses its
    /// reference bit.
    pub fn evict(&self, want: u64, g: &Guard) -> u64 {
        let hand = self.far.load(g).map(|far| &far.hand);
        // Relaxed: the gate is closed, and its lock orders one call after the other.
        let start = hand.map_or(0, |hand| hand.load(Ordering::Relaxed));
        let mut evicted = 0;
        for (index, slot) in self.walk(start..PAGES, g).chain(self.walk(0..start, g)) {
            if evicted == want {
                if let Some(hand) = hand {
                    // Relaxed: see `start`.
                    hand.store(index, Ordering::Relaxed);
                }
                break;
            }
            if slot.page(g).is_some_and(Page::is_evictable) {
                self.status.set_partial();
                slot.clear(SlotState::AtBackend, g);
                evicted += 1;
            }
        }
        evicted
    }
}
