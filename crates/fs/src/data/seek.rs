//! Where data is and where holes are. Inside the gate.

use hearth_sync::epoch::Guard;

use super::root::{Absent, Data, Look};
use super::span::{PAGE, PAGES};

impl Data {
    /// The first offset from `off` on that is data, below `size`. Allocated pages that were never
    /// written count as holes. `Absent` when only the backend can tell.
    pub fn seek_data(&self, off: u64, size: u64, g: &Guard) -> Result<Option<u64>, Absent> {
        if off >= size {
            return Ok(None);
        }
        let range = off / PAGE..size.div_ceil(PAGE).min(PAGES);
        let unknown_below = self.status.unknown_below();
        let mut next = range.start;
        for (index, _) in self.walk(range.clone(), g) {
            if index > next && next < unknown_below {
                return Err(Absent(next));
            }
            match self.look(index, g) {
                Look::Page(_) | Look::Held => return Ok(Some(off.max(index * PAGE))),
                Look::Hole | Look::Blank => {}
                Look::Unknown => return Err(Absent(index)),
            }
            next = index + 1;
        }
        if next < range.end.min(unknown_below) {
            Err(Absent(next))
        } else {
            Ok(None)
        }
    }

    /// The first offset from `off` on that is in a hole; `size` if there is none before. `Absent`
    /// when only the backend can tell.
    pub fn seek_hole(&self, off: u64, size: u64, g: &Guard) -> Result<u64, Absent> {
        for index in off / PAGE..size.div_ceil(PAGE).min(PAGES) {
            match self.look(index, g) {
                Look::Page(_) | Look::Held => {}
                Look::Hole | Look::Blank => return Ok(off.max(index * PAGE).min(size)),
                Look::Unknown => return Err(Absent(index)),
            }
        }
        Ok(size)
    }
}
