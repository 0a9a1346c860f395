//! Deleting the extents of a map.

use super::extents;
use super::tally::Tally;
use crate::error::Result;
use crate::kv::{KvOp, Read, Table};
use crate::schema::{Extent, Place, key};

/// What deleting a piece of a map found.
#[derive(Debug, Default)]
pub struct Dropped {
    /// Changes of keys.
    pub ops: Vec<KvOp>,
    /// How many extents they delete.
    pub extents: usize,
    /// Whether extents are left.
    pub is_part: bool,
}

/// Changes that delete at most `limit` extents of `map`.
pub fn drop_map(
    view: &(impl Read + ?Sized),
    map: u64,
    limit: usize,
    tally: &mut Tally,
) -> Result<Dropped> {
    let mut dropped = Dropped::default();
    let mut found = Ok(());
    let (from, to) = (key::extent(map, 0), key::extent(map + 1, 0));
    view.scan(Table::Extents, &from, Some(&to), &mut |key, value| {
        if dropped.extents == limit {
            dropped.is_part = true;
            return false;
        }
        match Extent::decode(key, value) {
            Ok(extent) => {
                dropped.extents += 1;
                dropped.delete(map, key, &extent, tally);
                true
            }
            Err(error) => {
                found = Err(error);
                false
            }
        }
    })?;
    found.map(|()| dropped)
}

impl Dropped {
    fn delete(&mut self, map: u64, key: &[u8], extent: &Extent, tally: &mut Tally) {
        match &extent.place {
            Place::Unwritten => {}
            Place::Inline => {
                let key = key::inline(map, extent.pages.end - 1);
                self.ops.push(extents(key, None));
            }
            Place::Stored { block, .. } => {
                let pages = extent.pages.end - extent.pages.start;
                tally.live(block.segment, -(pages as i64));
            }
        }
        self.ops.push(extents(key.into(), None));
    }
}
