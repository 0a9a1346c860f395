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
    /// The page from which on extents are left, if there are any.
    pub rest: Option<u64>,
}

/// Changes that delete at most `limit` extents of `map` that end at or behind page `from`. Starting
/// where the piece before has ended spares looking through what it deleted.
pub fn drop_map(
    view: &(impl Read + ?Sized),
    map: u64,
    from: u64,
    limit: usize,
    tally: &mut Tally,
) -> Result<Dropped> {
    let mut dropped = Dropped::default();
    let mut found = Ok(());
    let (from, to) = (key::extent(map, from), key::extent(map + 1, 0));
    view.scan(
        Table::Extents,
        &from,
        Some(&to),
        &mut |key, value| match Extent::decode(key, value) {
            Ok(extent) if dropped.extents == limit => {
                dropped.rest = Some(extent.pages.end - 1);
                false
            }
            Ok(extent) => {
                dropped.extents += 1;
                dropped.delete(map, key, &extent, tally);
                true
            }
            Err(error) => {
                found = Err(error);
                false
            }
        },
    )?;
    found.map(|()| dropped)
}

impl Dropped {
    fn delete(&mut self, map: u64, key: &[u8], extent: &Extent, tally: &mut Tally) {
        match &extent.place {
            Place::Unwritten => {
                let pages = extent.pages.end - extent.pages.start;
                tally.unwritten(-(pages as i64));
            }
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
