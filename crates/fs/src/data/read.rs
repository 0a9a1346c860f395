//! Reading, and pages that come from the backend.

use hearth_sync::epoch::Guard;
use std::ops::Range;

use super::page::Page;
use super::resident::Resident;
use super::root::{Data, PageLookup, PageMiss};
use super::slot_state::SlotState;
use super::slots::FAN;
use super::span::{BYTES, PAGES, Span, spans};

/// Most pages that are fetched at once.
const READ_AHEAD_MOST: u64 = 1024;

/// What [`Data::read_ahead`] finds.
pub struct Ahead {
    /// The pages to ask the backend for.
    pub pages: Range<u64>,
    /// Those of them that are holes, by rising index. The backend gives what was there before,
    /// until it has the record of the edit.
    pub holes: Vec<u64>,
}

impl Data {
    /// Copies bytes from `off` on into `out`; holes are zeros. The caller clips to the file's size.
    /// All bytes of one page come from between two writes; pages are read one by one.
    ///
    /// Takes no lock. Writes nothing shared when the pages are warm. Waits only for a writer of the
    /// same page, and for a running collapse or insert if a page is missing.
    pub fn read(&self, off: u64, out: &mut [u8], g: &Guard) -> Result<(), PageMiss> {
        let inside = BYTES.saturating_sub(off).min(out.len() as u64) as usize;
        out[inside..].fill(0);
        let mut near = None;
        let mut done = 0;
        for span in spans(off, inside as u64) {
            let part = &mut out[done..done + span.len()];
            done += span.len();
            if span.index.is_multiple_of(FAN) || near.is_none() {
                near = self.leaf(span.index, g);
            }
            let page = match span.index {
                0 => self.first.load(g),
                index => near.and_then(|leaf| leaf.slot(index).page(g)),
            };
            match page {
                Some(page) => page.read(span.bytes.start, part),
                None => self.read_missing(&span, part, g)?,
            }
        }
        Ok(())
    }

    /// The pages to fetch when `wanted` pages from `index` on are read and the first is missing:
    /// those that are at the backend, and the more behind them the more pages before them are in
    /// memory already.
    pub fn read_ahead(&self, index: u64, wanted: u64, g: &Guard) -> Ahead {
        let is_here = |index: u64| {
            self.slot(index, g)
                .is_some_and(|slot| slot.page(g).is_some())
        };
        let before = (index.saturating_sub(READ_AHEAD_MOST)..index).rev();
        let run = before.take_while(|&index| is_here(index)).count() as u64;
        let most = wanted.max(2 * run).clamp(1, READ_AHEAD_MOST);
        let (mut end, mut holes) = (index + 1, Vec::new());
        for index in index..index + most {
            match self.look(index, g) {
                PageLookup::AtBackend => end = index + 1,
                PageLookup::Hole => holes.push(index),
                PageLookup::Page(_) | PageLookup::Unwritten | PageLookup::Unknown => break,
            }
        }
        // Holes at the end are not worth asking for.
        holes.truncate(holes.partition_point(|&hole| hole < end));
        let pages = index..end;
        Ahead { pages, holes }
    }

    /// Installs the backend's result for page `index`: its content (padded with zeros), or None for
    /// a hole. Does nothing when the page is in memory already or an operation has decided its
    /// state meanwhile. Returns what came into memory.
    ///
    /// The caller has been inside the gate since before it asked the backend: otherwise the result
    /// could be older than a write that was flushed and evicted in between.
    pub fn load(&self, index: u64, bytes: Option<&[u8]>, g: &Guard) -> Resident {
        let mut came = Resident::default();
        if index >= PAGES || !matches!(self.look(index, g), PageLookup::AtBackend) {
            return came;
        }
        let slot = self.grow(index, &mut came.nodes, g);
        match (bytes, slot.state.get()) {
            // A page that is there already wins; this one is dropped.
            (Some(bytes), SlotState::AtBackend) => {
                came.pages += u64::from(slot.slot.install(Page::loaded(bytes), g).is_ok());
            }
            // An allocated page stays allocated: the count must not drift.
            (None, SlotState::AtBackend) => {
                (slot.state).replace(SlotState::AtBackend, SlotState::Unwritten);
            }
            _ => {}
        }
        came
    }

    /// The slow path of `read`: no page was in the slot.
    #[cold]
    fn read_missing(&self, span: &Span, out: &mut [u8], g: &Guard) -> Result<(), PageMiss> {
        match self.look(span.index, g) {
            PageLookup::Page(page) => page.read(span.bytes.start, out),
            PageLookup::Hole | PageLookup::Unwritten => out.fill(0),
            PageLookup::AtBackend | PageLookup::Unknown => return Err(PageMiss(span.index)),
        }
        Ok(())
    }
}

impl Data {
    /// What is in memory, counted one by one.
    pub fn resident(&self, g: &Guard) -> Resident {
        self.resident_in(&(0..PAGES), g)
    }

    /// What is in memory, counted one by one, of all leaves that have pages in `range`.
    pub fn resident_in(&self, range: &Range<u64>, g: &Guard) -> Resident {
        let is_first = range.contains(&0) && !self.first.is_empty();
        let mut all = Resident {
            pages: u64::from(is_first),
            nodes: 0,
        };
        if range.is_empty() {
            return all;
        }
        if let Some(leaf) = self.near.load(g).filter(|_| range.start < FAN) {
            all.add(leaf.resident());
        }
        if let Some(far) = self.far.load(g) {
            all.add(far.resident(range, g));
        }
        all
    }
}
