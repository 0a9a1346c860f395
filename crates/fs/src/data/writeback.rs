//! Pages on their way to the home and out of memory.

use hearth_sync::epoch::Guard;

use super::mark::Mark;
use super::page::Page;
use super::root::Data;
use super::span::{PAGE_BYTES, PAGES};
use super::tree::Place;

/// Gives the home the page of this index.
pub(super) type Save<'s, E> = dyn FnMut(u64, &[u8]) -> Result<(), E> + 's;

impl Data {
    /// Gives `write` every page that the home has not got, by rising index, and says how many. A
    /// page written to meanwhile stays dirty; one that `write` fails for is dirty again and ends
    /// the flush.
    ///
    /// Inside the gate, one flush of a file at a time: a second one would find clean what the
    /// first has not saved yet.
    pub fn flush<E>(&self, g: &Guard, write: &mut Save<'_, E>) -> Result<u64, E> {
        let mut flushed = 0;
        for (index, place) in self.walk(0..PAGES, g) {
            let taken = match place.page(g) {
                Some(page) => flush_page(index, page, write)?,
                None => flush_blank(index, &place, write)?,
            };
            flushed += u64::from(taken);
        }
        Ok(flushed)
    }

    /// Drops up to `want` pages from memory that are clean and were not used since the last call,
    /// and says how many. Only for files whose home can give them back; gate closed.
    ///
    /// Every call goes around the file once: what was used keeps its page and loses its bit.
    pub fn evict(&self, want: u64, g: &Guard) -> u64 {
        let mut evicted = 0;
        for (_, place) in self.walk(0..PAGES, g) {
            if evicted == want {
                break;
            }
            if place.page(g).is_some_and(Page::is_cold) {
                self.status.set_partial();
                place.clear(Mark::Held, g);
                evicted += 1;
            }
        }
        evicted
    }
}

/// True when the page was dirty and is saved.
fn flush_page<E>(index: u64, page: &Page, write: &mut Save<'_, E>) -> Result<bool, E> {
    if !page.begin_flush() {
        return Ok(false);
    }
    let mut bytes = [0; PAGE_BYTES];
    page.copy(&mut bytes);
    let answer = write(index, &bytes);
    page.end_flush(answer.is_ok());
    answer.map(|()| true)
}

/// True when the page was allocated, not known to the home, and is saved as zeros. A write may
/// fill the slot meanwhile: then its page is dirty and the next flush follows ours.
fn flush_blank<E>(index: u64, place: &Place<'_>, write: &mut Save<'_, E>) -> Result<bool, E> {
    if !place.spot.replace(Mark::Fresh, Mark::Blank) {
        return Ok(false);
    }
    let answer = write(index, &[0; PAGE_BYTES]);
    if answer.is_err() {
        place.spot.replace(Mark::Blank, Mark::Fresh);
    }
    answer.map(|()| true)
}
