//! The extents of one file while an epoch's edits are applied to them.
//!
//! An [`EditedMap`] holds what was read of the extents before, piece by piece as edits need it, and
//! what the edits made of it. The difference of the two is what changes.
//!
//! 1. `loaded` are the ranges whose extents before are in `old` and, as far as they are left, in
//!    `pieces`. Nothing of `pieces` lies outside of them.
//! 2. A shift loads everything behind it. So a page that has not been loaded has not moved either.

use super::extents;
use super::tally::Tally;
use crate::error::Result;
use crate::kv::{KvOp, Read, Table};
use crate::schema::{Block, Contents, Extent, Inline, Place, corrupt, key, part};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Where the bytes of a piece are. `within` is its first page there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source<'r> {
    Unwritten,
    /// In a segment.
    Stored {
        block: Block,
        within: u32,
    },
    /// Inline in a record of this epoch.
    Fresh {
        bytes: &'r [u8],
        within: u32,
    },
    /// Inline before this epoch, under this last page.
    Kept {
        last: u64,
        within: u32,
    },
}

impl Source<'_> {
    fn skip(mut self, pages: u64) -> Self {
        match &mut self {
            Source::Unwritten => {}
            Source::Stored { within, .. }
            | Source::Fresh { within, .. }
            | Source::Kept { within, .. } => *within = within.saturating_add(pages as u32),
        }
        self
    }
}

/// A range of a file and where its bytes are.
#[derive(Clone, Debug)]
pub(super) struct Piece<'r> {
    pub(super) range: Range<u64>,
    pub(super) source: Source<'r>,
}

/// See the module.
pub(super) struct EditedMap<'a, R: ?Sized> {
    view: &'a R,
    /// Inode and generation.
    file: (u64, u32),
    /// Number of the map before; 0 if there is none.
    map: u64,
    /// Pages of the map before.
    pages: u64,
    /// Extents before, by their last page.
    old: BTreeMap<u64, Extent>,
    /// Disjoint, by rising start.
    loaded: BTreeMap<u64, u64>,
    /// By first page.
    pieces: BTreeMap<u64, (u64, Source<'a>)>,
    is_shifted: bool,
    dropped: Vec<u64>,
}

/// What became of a map.
pub(super) struct Finished {
    /// Number of the map; 0 if it has none yet.
    pub(super) map: u64,
    /// All pages now.
    pub(super) pages: u64,
    /// Extents that are gone, by their last page; whether each had inline bytes.
    gone: Vec<(u64, bool)>,
    /// Extents that are new.
    pub(super) pieces: Vec<NewExtent>,
}

/// An extent that is new.
pub(super) struct NewExtent {
    extent: Extent,
    /// Its inline value.
    inline: Option<Box<[u8]>>,
    /// Whether the one before had an inline value that must go.
    removes_inline: bool,
}

impl<'a, R: Read + ?Sized> EditedMap<'a, R> {
    /// The map of `file`, inode and generation, whose contents before are `contents`.
    pub(super) fn new(view: &'a R, file: (u64, u32), contents: &Contents) -> EditedMap<'a, R> {
        EditedMap {
            view,
            file,
            map: contents.map,
            pages: contents.pages,
            old: BTreeMap::new(),
            loaded: BTreeMap::new(),
            pieces: BTreeMap::new(),
            is_shifted: false,
            dropped: Vec::new(),
        }
    }

    /// These pages have these contents.
    pub(super) fn write(&mut self, piece: Piece<'a>) -> Result<()> {
        self.load(&piece.range)?;
        self.take_out(&piece.range);
        self.pieces
            .insert(piece.range.start, (piece.range.end, piece.source));
        Ok(())
    }

    /// These pages are holes.
    pub(super) fn cut(&mut self, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        if self.leaves_nothing(&range)? {
            self.dropped.push(self.map);
            (self.map, self.pages) = (0, 0);
            self.old.clear();
            self.loaded.clear();
            self.pieces.clear();
            return Ok(());
        }
        self.load(&range)?;
        self.take_out(&range);
        Ok(())
    }

    /// The pages from `from` on move by `by`.
    pub(super) fn shift(&mut self, from: u64, by: i64) -> Result<()> {
        let to = from.saturating_add_signed(by);
        self.load(&(from.min(to)..u64::MAX))?;
        self.split_at(from);
        if to < from {
            self.take_out(&(to..from));
        }
        self.is_shifted = true;
        let moved = self.pieces.split_off(&from);
        for (start, (end, source)) in moved {
            let (start, end) = (
                start.checked_add_signed(by),
                end.checked_add_signed(by).filter(|end| *end < u64::MAX),
            );
            // Nothing moves past the last page: the volume has refused that.
            if let (Some(start), Some(end)) = (start, end) {
                self.pieces.insert(start, (end, source));
            }
        }
        Ok(())
    }

    /// Maps that the edits left nothing of.
    pub(super) fn take_dropped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.dropped)
    }

    /// The difference between the extents now and before.
    pub(super) fn finish(mut self, tally: &mut Tally) -> Result<Finished> {
        let count = |range: &Range<u64>| range.end - range.start;
        let mut pages = self.pages;
        for extent in self.old.values() {
            pages = pages.saturating_sub(count(&extent.pages));
            match &extent.place {
                Place::Stored { block, .. } => {
                    tally.live(block.segment, -(count(&extent.pages) as i64));
                }
                Place::Unwritten => tally.unwritten(-(count(&extent.pages) as i64)),
                Place::Inline => {}
            }
        }
        let mut finished = Finished {
            map: self.map,
            pages: 0,
            gone: Vec::new(),
            pieces: Vec::new(),
        };
        let mut stays = HashSet::new();
        for (start, (end, source)) in std::mem::take(&mut self.pieces) {
            let range = start..end;
            pages += count(&range);
            match &source {
                Source::Stored { block, .. } => tally.live(block.segment, count(&range) as i64),
                Source::Unwritten => tally.unwritten(count(&range) as i64),
                Source::Fresh { .. } | Source::Kept { .. } => {}
            }
            let extent = Extent {
                pages: range,
                place: place(&source),
            };
            let last = end - 1;
            let before = self.old.get(&last);
            let is_same_source = match &source {
                Source::Fresh { .. } => false,
                Source::Kept { last: key, within } => (*key, *within) == (last, 0),
                _ => true,
            };
            if before.is_some() {
                stays.insert(last);
            }
            if before != Some(&extent) || !is_same_source {
                let had_inline = before.is_some_and(|old| old.place == Place::Inline);
                let inline = self.bytes(&extent.pages, source)?;
                finished.pieces.push(NewExtent {
                    extent,
                    removes_inline: had_inline && inline.is_none(),
                    inline,
                });
            }
        }
        finished.pages = pages;
        for (last, extent) in &self.old {
            if !stays.contains(last) {
                finished.gone.push((*last, extent.place == Place::Inline));
            }
        }
        Ok(finished)
    }

    /// The inline value of a piece whose bytes are inline.
    fn bytes(&self, range: &Range<u64>, source: Source<'_>) -> Result<Option<Box<[u8]>>> {
        let count = range.end - range.start;
        let (ino, generation) = self.file;
        let value = |bytes: &[u8], within| {
            let bytes = part(bytes, within, count);
            let inline = Inline {
                ino,
                generation,
                first: range.start,
                bytes,
            };
            Some(inline.encode())
        };
        Ok(match source {
            Source::Unwritten | Source::Stored { .. } => None,
            Source::Fresh { bytes, within } => value(bytes, within),
            Source::Kept { last, within } => {
                let key = key::inline(self.map, last);
                let found = self.view.get(Table::Extents, &key)?;
                let found = found.ok_or_else(|| corrupt(&key, "inline bytes are missing"))?;
                value(Inline::decode(&key, &found)?.bytes, within)
            }
        })
    }

    /// Whether no page lies outside of `range`, so that the whole map may go at once.
    fn leaves_nothing(&self, range: &Range<u64>) -> Result<bool> {
        let first = self.pieces.first_key_value();
        let last = self.pieces.last_key_value();
        if self.map == 0
            || self.is_shifted
            || first.is_some_and(|(start, _)| *start < range.start)
            || last.is_some_and(|(_, (end, _))| *end > range.end)
        {
            return Ok(false);
        }
        // Behind it first: a file that is cut at its end has something before it, mostly.
        Ok(!self.has_unloaded(range.end..u64::MAX)? && !self.has_unloaded(0..range.start)?)
    }

    /// Whether an extent before that was not loaded meets `range`.
    fn has_unloaded(&self, range: Range<u64>) -> Result<bool> {
        let mut found = false;
        if !range.is_empty() {
            self.scan(&range, &mut |last, _| {
                found = !self.old.contains_key(&last);
                !found
            })?;
        }
        Ok(found)
    }

    /// Passes the extents before that meet `range`, by rising page, until `visit` returns false.
    fn scan(&self, range: &Range<u64>, visit: &mut dyn FnMut(u64, Extent) -> bool) -> Result<()> {
        let (from, to) = (
            key::extent(self.map, range.start),
            key::extent(self.map + 1, 0),
        );
        let mut failed = Ok(());
        (self.view).scan(
            Table::Extents,
            &from,
            Some(&to),
            &mut |key, value| match Extent::decode(key, value) {
                Ok(extent) if extent.pages.start >= range.end => false,
                Ok(extent) => visit(extent.pages.end - 1, extent),
                Err(error) => {
                    failed = Err(error);
                    false
                }
            },
        )?;
        failed
    }

    /// Makes sure that the extents before that meet `range` are known.
    fn load(&mut self, range: &Range<u64>) -> Result<()> {
        if self.map == 0 {
            return Ok(());
        }
        for part in self.unloaded(range) {
            let mut found = Vec::new();
            self.scan(&part, &mut |last, extent| {
                found.push((last, extent));
                true
            })?;
            for (last, extent) in found {
                if self.old.contains_key(&last) {
                    continue;
                }
                let source = match extent.place {
                    Place::Unwritten => Source::Unwritten,
                    Place::Inline => Source::Kept { last, within: 0 },
                    Place::Stored { block, within } => Source::Stored { block, within },
                };
                self.pieces
                    .insert(extent.pages.start, (extent.pages.end, source));
                self.mark_loaded(extent.pages.clone());
                self.old.insert(last, extent);
            }
            self.mark_loaded(part);
        }
        Ok(())
    }

    /// The parts of `range` that were not loaded.
    fn unloaded(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let before = self.loaded.range(..range.start).next_back();
        let mut at = range.start.max(before.map_or(0, |(_, end)| *end));
        for (start, end) in self.loaded.range(range.clone()) {
            if *start > at {
                parts.push(at..*start);
            }
            at = at.max(*end);
        }
        if at < range.end {
            parts.push(at..range.end);
        }
        parts
    }

    fn mark_loaded(&mut self, mut range: Range<u64>) {
        while let Some((&start, &end)) = self.loaded.range(..=range.end).next_back() {
            if end < range.start {
                break;
            }
            self.loaded.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.loaded.insert(range.start, range.end);
    }

    /// Splits the piece that has pages on both sides of `page`.
    fn split_at(&mut self, page: u64) {
        let Some((&start, (end, source))) = self.pieces.range_mut(..page).next_back() else {
            return;
        };
        if *end > page {
            let behind = (*end, source.clone().skip(page - start));
            *end = page;
            self.pieces.insert(page, behind);
        }
    }

    fn take_out(&mut self, range: &Range<u64>) {
        self.split_at(range.start);
        self.split_at(range.end);
        while let Some((&start, _)) = self.pieces.range(range.clone()).next() {
            self.pieces.remove(&start);
        }
    }
}

fn place(source: &Source<'_>) -> Place {
    match source {
        Source::Unwritten => Place::Unwritten,
        Source::Fresh { .. } | Source::Kept { .. } => Place::Inline,
        Source::Stored { block, within } => Place::Stored {
            block: *block,
            within: *within,
        },
    }
}

impl Finished {
    /// Changes of keys, when the map is `map`.
    pub(super) fn ops(self, map: u64) -> Vec<KvOp> {
        let mut ops = Vec::with_capacity(self.gone.len() + self.pieces.len());
        for (last, had_inline) in self.gone {
            ops.push(extents(key::extent(map, last), None));
            if had_inline {
                ops.push(extents(key::inline(map, last), None));
            }
        }
        for new in self.pieces {
            let last = new.extent.pages.end - 1;
            ops.push(extents(key::extent(map, last), Some(new.extent.encode())));
            if new.inline.is_some() || new.removes_inline {
                ops.push(extents(key::inline(map, last), new.inline));
            }
        }
        ops
    }
}
