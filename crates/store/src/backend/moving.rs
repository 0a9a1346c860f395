//! Extents whose bytes move elsewhere: from inline data to segments, from segment to segment.

use super::StoreBackend;
use super::commit::State;
use super::parts::{FilePages, PagesInBlock};
use crate::error::Result;
use crate::kv::{KvOp, Table};
use crate::merge::{Tally, extents as change};
use crate::schema::{Extent, Place, key};
use std::collections::BTreeMap;

const PAGE: usize = 4096;

/// An extent as idle work has read it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Inode and generation.
    pub(super) file: (u64, u32),
    pub(super) map: u64,
    pub(super) extent: Extent,
    /// Its inline value, if it has one.
    pub(super) inline: Option<Vec<u8>>,
}

/// An extent and what is to be in its place.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) found: Found,
    /// Stored extents that cover the same pages.
    pub(super) to: Vec<Extent>,
}

type OfFile = BTreeMap<u64, Box<[u8]>>;

/// The pages of extents with their bytes, by file and rising page.
#[derive(Debug, Default)]
pub(super) struct Pages {
    files: BTreeMap<(u64, u32), OfFile>,
}

impl Pages {
    /// Adds the pages of an extent. `bytes` begin with its first one; zeros follow.
    pub(super) fn add(&mut self, found: &Found, bytes: &[u8]) {
        let file = self.files.entry(found.file).or_default();
        for (at, index) in found.extent.pages.clone().enumerate() {
            let mut page = vec![0; PAGE];
            let rest = bytes.get(at * PAGE..).unwrap_or_default();
            let length = rest.len().min(PAGE);
            page[..length].copy_from_slice(&rest[..length]);
            file.insert(index, page.into());
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl StoreBackend {
    /// Stores pages in segments. Returns where those of each file are, and counts them as pending
    /// until [`StoreBackend::commit_moves`].
    pub(super) fn store_pages(
        &self,
        pages: Pages,
    ) -> Result<BTreeMap<(u64, u32), Vec<PagesInBlock>>> {
        let files: Vec<FilePages> = pages
            .files
            .into_iter()
            .map(|((ino, generation), pages)| FilePages {
                ino,
                generation,
                pages: pages.into_iter().collect(),
            })
            .collect();
        let written = self.blocks.write_files(&files)?;
        let keys = files.iter().map(|file| (file.ino, file.generation));
        Ok(keys.zip(written).collect())
    }

    /// Puts other extents in the place of those that are still what was read. `named` are all
    /// pages that were stored for it, by segment: where it fails their files go, but not before
    /// the next commit. Returns how many extents moved.
    pub(super) fn commit_moves(
        &self,
        moves: Vec<Move>,
        named: &BTreeMap<u64, u64>,
    ) -> Result<usize> {
        let mut state = self.state.lock();
        let moved = self.try_moves(&mut state, moves, named);
        if moved.is_err() {
            state.add_unnamed(named.keys().copied());
        }
        moved
    }

    fn try_moves(
        &self,
        state: &mut State,
        moves: Vec<Move>,
        named: &BTreeMap<u64, u64>,
    ) -> Result<usize> {
        let mut tally = Tally::default();
        let mut counters = state.counters();
        let mut put: BTreeMap<(u64, u64), Extent> = BTreeMap::new();
        let mut gone = Vec::new();
        let mut count = 0;
        for Move { found, to } in moves {
            if !self.is_same(&found)? {
                continue;
            }
            count += 1;
            let last = found.extent.pages.end - 1;
            gone.push((found.map, last, found.inline.is_some()));
            tally_extent(&mut tally, &found.extent, -1);
            for extent in to {
                tally_extent(&mut tally, &extent, 1);
                put.insert((found.map, extent.pages.end - 1), extent);
            }
        }
        if named.is_empty() {
            return Ok(0);
        }
        // Also where nothing could move: a segment is given up by its key.
        for (segment, pages) in named {
            tally.named(*segment, *pages);
            counters.next_segment = counters.next_segment.max(segment + 1);
        }
        let mut ops = Vec::new();
        join(&mut put);
        for (map, last, had_inline) in gone {
            if !put.contains_key(&(map, last)) {
                ops.push(change(key::extent(map, last), None));
            }
            if had_inline {
                ops.push(change(key::inline(map, last), None));
            }
        }
        let put = put.into_iter();
        ops.extend(put.map(|((map, last), extent)| -> KvOp {
            change(key::extent(map, last), Some(extent.encode()))
        }));
        tally.finish(&*self.kv, &mut ops)?;
        state.apply(&*self.kv, counters, ops)?;
        state.deaths += 1;
        Ok(count)
    }

    /// Whether an extent is still what was read.
    fn is_same(&self, found: &Found) -> Result<bool> {
        let last = found.extent.pages.end - 1;
        let value = self.kv.get(Table::Extents, &key::extent(found.map, last))?;
        if value.as_deref() != Some(&found.extent.encode()[..]) {
            return Ok(false);
        }
        match &found.inline {
            None => Ok(true),
            Some(before) => {
                let now = self.kv.get(Table::Extents, &key::inline(found.map, last))?;
                Ok(now.as_ref() == Some(before))
            }
        }
    }
}

/// The parts of `extent` in what was written of its file.
pub(super) fn parts(extent: &Extent, written: &[PagesInBlock]) -> Vec<Extent> {
    let from = written.partition_point(|part| part.pages.end <= extent.pages.start);
    let parts = written[from..].iter();
    parts
        .take_while(|part| part.pages.start < extent.pages.end)
        .map(|part| {
            let start = extent.pages.start.max(part.pages.start);
            let end = extent.pages.end.min(part.pages.end);
            Extent {
                pages: start..end,
                place: Place::Stored {
                    block: part.block,
                    within: (start - part.pages.start) as u32,
                },
            }
        })
        .collect()
}

/// Makes one extent of those that lie one behind the other in the file and in a block.
fn join(put: &mut BTreeMap<(u64, u64), Extent>) {
    let mut joined: Vec<((u64, u64), Extent)> = Vec::with_capacity(put.len());
    for ((map, last), extent) in std::mem::take(put) {
        if let Some(((map_before, last_before), before)) = joined.last_mut()
            && *map_before == map
            && before.pages.end == extent.pages.start
            && goes_on(before, &extent)
        {
            before.pages.end = extent.pages.end;
            *last_before = last;
        } else {
            joined.push(((map, last), extent));
        }
    }
    put.extend(joined);
}

fn goes_on(before: &Extent, next: &Extent) -> bool {
    let (
        Place::Stored { block, within },
        Place::Stored {
            block: next_block,
            within: next_within,
        },
    ) = (&before.place, &next.place)
    else {
        return false;
    };
    let count = before.pages.end - before.pages.start;
    block == next_block && u64::from(*within) + count == u64::from(*next_within)
}

fn tally_extent(tally: &mut Tally, extent: &Extent, sign: i64) {
    if let Place::Stored { block, .. } = &extent.place {
        let count = (extent.pages.end - extent.pages.start) as i64;
        tally.live(block.segment, sign * count);
    }
}
