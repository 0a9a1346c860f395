//! Where data is and where holes are. Inside the gate.

use hearth_sync::epoch::Guard;

use super::leaf::Absence;
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
        let mut slots = self.walk(range.clone(), g);
        let here = slots
            .find(|(_, slot)| slot.is_written(g))
            .map(|(index, _)| index);
        let found = match self.first_absent(&range, Absence::has_data, g) {
            Some((index, _)) if here.is_some_and(|here| here < index) => here,
            Some((index, true)) => Some(index),
            Some((index, false)) => return Err(PageMiss(index)),
            None => here,
        };
        Ok(found.map(|index| off.max(index * PAGE)))
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
