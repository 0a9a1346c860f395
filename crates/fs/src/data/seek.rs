//! Where data is and where holes are. Inside the gate.

use hearth_sync::epoch::Guard;

use super::root::{Data, PageLookup, PageMiss};
use super::span::{PAGE, PAGES};

impl Data {
    /// The first offset from `off` on that is data, below `size`. Allocated pages that were never
    /// written count as holes. `PageMiss` when only the backend can tell.
    pub fn seek_data(&self, off: u64, size: u64, g: &Guard) -> Result<Option<u64>, PageMiss> {
        if off >= size {
            return Ok(None);
        }
        let range = off / PAGE..size.div_ceil(PAGE).min(PAGES);
        let unknown_below = self.status.unknown_below();
        let mut next = range.start;
        for (index, _) in self.walk(range.clone(), g) {
            if index > next && next < unknown_below {
                return Err(PageMiss(next));
            }
            match self.look(index, g) {
                PageLookup::Page(_) | PageLookup::AtBackend => {
                    return Ok(Some(off.max(index * PAGE)));
                }
                PageLookup::Hole | PageLookup::Unwritten => {}
                PageLookup::Unknown => return Err(PageMiss(index)),
            }
            next = index + 1;
        }
        if next < range.end.min(unknown_below) {
            Err(PageMiss(next))
        } else {
            Ok(None)
        }
    }

    /// The first offset from `off` on that is in a hole; `size` if there is none before. `PageMiss`
    /// when only the backend can tell.
    pub fn seek_hole(&self, off: u64, size: u64, g: &Guard) -> Result<u64, PageMiss> {
        for index in off / PAGE..size.div_ceil(PAGE).min(PAGES) {
            match self.look(index, g) {
                PageLookup::Page(_) | PageLookup::AtBackend => {}
                PageLookup::Hole | PageLookup::Unwritten => {
                    return Ok(off.max(index * PAGE).min(size));
                }
                PageLookup::Unknown => return Err(PageMiss(index)),
            }
        }
        Ok(size)
    }
}
