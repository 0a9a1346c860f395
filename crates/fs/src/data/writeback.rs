//! Write-back to the backend, and eviction from memory.

use hearth_sync::epoch::{Guard, pin};
use hearth_sync::primitive::atomic::Ordering;

use super::page::Page;
use super::root::Data;
use super::slot_state::SlotState;
use super::span::{PAGE_BYTES, PAGES};

/// Writes the page of this index to the backend.
pub(super) type Save<'s, E> = dyn FnMut(u64, &[u8]) -> Result<(), E> + 's;

/// A save in progress. Unless it succeeds the page is dirty again, even if the backend panics.
struct Saving<'d> {
    data: &'d Data,
    index: u64,
    saved: bool,
}

impl Drop for Saving<'_> {
    fn drop(&mut self) {
        self.data.end_save(self.index, self.saved);
    }
}

impl Data {
    /// Passes every dirty page to `write`, by rising index, and returns how many. A page written to
    /// meanwhile stays dirty; a page for which `write` fails is dirty again and ends the flush.
    /// Nothing is pinned while `write` runs.
    ///
    /// Inside the gate, one flush of a file at a time: a second one would find clean what the first
    /// has not saved yet. The gate also keeps every page in its slot meanwhile.
    pub fn flush<E>(&self, write: &mut Save<'_, E>) -> Result<u64, E> {
        let mut bytes = [0; PAGE_BYTES];
        let (mut flushed, mut next) = (0, 0);
        while let Some(index) = self.take_unsaved(next, &mut bytes) {
            let mut saving = Saving {
                data: self,
                index,
                saved: false,
            };
            write(index, &bytes)?;
            saving.saved = true;
            drop(saving);
            flushed += 1;
            next = index + 1;
        }
        Ok(flushed)
    }

    /// Copies the next dirty page from `from` on and marks it as under write-back.
    fn take_unsaved(&self, from: u64, bytes: &mut [u8; PAGE_BYTES]) -> Option<u64> {
        let g = &pin();
        for (index, slot) in self.walk(from..PAGES, g) {
            match slot.page(g) {
                Some(page) if page.begin_flush() => {
                    page.copy(bytes);
                    return Some(index);
                }
                // Allocated, not known to the backend, and saved as zeros. A write may fill the
                // slot meanwhile: then its page is dirty and the next flush writes it.
                None if slot
                    .state
                    .replace(SlotState::UnwrittenDirty, SlotState::Unwritten) =>
                {
                    bytes.fill(0);
                    return Some(index);
                }
                _ => {}
            }
        }
        None
    }

    /// Ends what `take_unsaved` began.
    fn end_save(&self, index: u64, saved: bool) {
        let g = &pin();
        let Some(slot) = self.slot(index, g) else {
            return;
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
