//! Reading, and pages that come from the backend.

use hearth_sync::epoch::Guard;

use super::mark::Mark;
use super::page::Page;
use super::root::{Absent, Data, Look};
use super::span::{BYTES, PAGES, Span, spans};
use super::tree::FAN;

impl Data {
    /// Copies bytes from `off` on into `out`; holes are zeros. The caller clips to the file's size.
    /// All bytes of one page come from between two writes; pages are read one by one.
    ///
    /// Takes no lock. Writes nothing shared when the pages are warm. Waits only for a writer of the
    /// same page, and for a running collapse or insert if a page is missing.
    pub fn read(&self, off: u64, out: &mut [u8], g: &Guard) -> Result<(), Absent> {
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
                index => near.and_then(|leaf| leaf.place(index).page(g)),
            };
            match page {
                Some(page) => page.read(span.bytes.start, part),
                None => self.read_missing(&span, part, g)?,
            }
        }
        Ok(())
    }

    /// Installs the backend's result for page `index`: its content (padded with zeros), or None for
    /// a hole. Does nothing when the page is in memory already or an operation has decided its
    /// state meanwhile. Returns whether a page came into memory.
    ///
    /// The caller has been inside the gate since before it asked the backend: otherwise the result
    /// could be older than a write that was flushed and evicted in between.
    pub fn load(&self, index: u64, bytes: Option<&[u8]>, g: &Guard) -> bool {
        if index >= PAGES || !matches!(self.look(index, g), Look::Held | Look::Unknown) {
            return false;
        }
        let place = self.grow(index, g);
        match (bytes, place.spot.get()) {
            // A page that is there already wins; this one is dropped.
            (Some(bytes), Mark::Held | Mark::Nothing) => {
                return place.slot.install(Page::loaded(bytes), g).is_ok();
            }
            // An allocated page stays allocated: the count must not drift.
            (None, Mark::Held) => place.spot.replace(Mark::Held, Mark::Blank),
            (None, Mark::Nothing) => place.spot.replace(Mark::Nothing, Mark::Hole),
            _ => false,
        };
        false
    }

    /// The slow path of `read`: no page was in the slot.
    #[cold]
    fn read_missing(&self, span: &Span, out: &mut [u8], g: &Guard) -> Result<(), Absent> {
        match self.look(span.index, g) {
            Look::Page(page) => page.read(span.bytes.start, out),
            Look::Hole | Look::Blank => out.fill(0),
            Look::Held | Look::Unknown => return Err(Absent(span.index)),
        }
        Ok(())
    }
}
