//! Contents of a file: all edits of an epoch, in the order of their versions.

use super::extents::{EditedMap, Piece, Source};
use super::{Merger, Tally};
use crate::error::Result;
use crate::kv::Read;
use crate::schema::{Block, Contents, Counters};
use hearth_backend::{Edit, Place};
use std::collections::HashMap;

/// A change of the contents of one file.
pub(super) struct ContentsChange<'r> {
    pub(super) version: u32,
    pub(super) size: u64,
    pub(super) edit: &'r Edit,
}

impl ContentsChange<'_> {
    /// Counts the pages of segments that the change names.
    pub(super) fn name(
        &self,
        counters: &mut Counters,
        named: &mut HashMap<u64, u64>,
        tally: &mut Tally,
    ) {
        let Edit::Write(extents) = self.edit else {
            return;
        };
        for extent in extents {
            let Place::Stored(place) = &extent.place else {
                continue;
            };
            if let Ok(block) = Block::decode(place) {
                let pages = extent.pages.end.saturating_sub(extent.pages.start);
                *named.entry(block.segment).or_default() += pages;
                tally.named(block.segment, pages);
                counters.next_segment = counters.next_segment.max(block.segment + 1);
            }
        }
    }
}

impl<R: Read + ?Sized> Merger<'_, R> {
    /// The contents of `file`, inode and generation, after all `changes`.
    pub(super) fn contents(
        &mut self,
        file: (u64, u32),
        mut contents: Contents,
        mut changes: Vec<ContentsChange<'_>>,
    ) -> Result<Contents> {
        let Some(first) = changes.first().map(|change| change.version) else {
            return Ok(contents);
        };
        changes.sort_by_key(|change| change.version.wrapping_sub(first) as i32);
        let mut map = EditedMap::new(self.view, file, &contents);
        for change in changes {
            contents.size = change.size;
            match change.edit {
                Edit::Size => {}
                Edit::Write(extents) => {
                    for extent in extents {
                        write(&mut map, extent)?;
                    }
                }
                Edit::Cut(range) => map.cut(range.clone())?,
                Edit::Shift { from, by } => map.shift(*from, *by)?,
            }
        }
        for dropped in map.take_dropped() {
            self.drop_map(dropped)?;
        }
        let finished = map.finish(&mut self.tally)?;
        if finished.map == 0 && !finished.pieces.is_empty() {
            // A volume's first map is 1: 0 is none.
            self.counters.next_map = self.counters.next_map.max(1);
            contents.map = self.counters.next_map;
            self.counters.next_map += 1;
        } else {
            contents.map = finished.map;
        }
        contents.pages = finished.pages;
        self.ops.extend(finished.ops(contents.map));
        Ok(contents)
    }
}

fn write<'r, R: Read + ?Sized>(
    map: &mut EditedMap<'r, R>,
    extent: &'r hearth_backend::Extent,
) -> Result<()> {
    let range = extent.pages.clone();
    if range.is_empty() {
        return Ok(());
    }
    let source = match &extent.place {
        Place::Unwritten => Source::Unwritten,
        Place::Inline(bytes) => Source::Fresh { bytes, within: 0 },
        Place::Stored(place) => Source::Stored {
            block: Block::decode(place)?,
            within: 0,
        },
    };
    map.write(Piece { range, source })
}
