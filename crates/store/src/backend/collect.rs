//! The collector: segments with few live pages are rewritten, so that their files can go.
//!
//! Blocks of which enough is live move as they are; of others the live pages are packed anew, so
//! that a segment that was written by the collector is not worth collecting at once. Which extents
//! name a block is looked up at the place in the file that the block was written for. Only where a
//! shift has moved extents since, all of the file are looked through.

use super::StoreBackend;
use super::load::{contents, each, extents, read_one};
use super::moving::{Found, Move, Pages, parts};
use super::tidy::{Tidying, is_lack_of_room};
use crate::error::Result;
use crate::kv::Table;
use crate::schema::{Block, Inode, Place, Segment, key, part};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::Instant;

/// Live pages of the segments that are chosen at once: those of one segment.
const PIECE: u64 = (32 << 20) / 4096;
/// Segments that are rewritten or given up at once.
const SEGMENTS: usize = 256;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// What is said of a block that cannot be read.
const UNMOVED: &str = "the collector leaves a block where it is";
/// Extents that are looked up at once.
const BATCH: usize = 4096;

impl Tidying {
    /// Nothing is worth collecting until more dies, or, unless `is_quiet`, for a time.
    fn rest(&mut self, deaths: u64, is_quiet: bool) {
        if deaths != self.deaths || self.quiet_since.is_none() {
            self.quiet_since = Some(Instant::now());
        }
        self.deaths = deaths;
        self.is_tidy = is_quiet;
    }
}

impl StoreBackend {
    /// Gives up dead segments, or rewrites some with few live pages; true if it did.
    pub(super) fn collect(&self, tidying: &mut Tidying) -> Result<bool> {
        let deaths = self.state.lock().deaths;
        let is_quiet = deaths == tidying.deaths;
        if is_quiet && (tidying.is_tidy || !self.is_quiet_for_long(tidying)) {
            return Ok(false);
        }
        let percent = self.limits.percent(self.kv.room(), is_quiet);
        let choice = self.choose(tidying, percent)?;
        if !choice.dead.is_empty() {
            self.doom(tidying, &choice.dead)?;
            return Ok(true);
        }
        if choice.segments.is_empty() {
            tidying.rest(deaths, is_quiet);
            return Ok(false);
        }
        let result = self.empty(&choice.segments, percent);
        if let Err(error) = &result
            && is_lack_of_room(error)
        {
            // There will be another try when more has died.
            tidying.rest(deaths, true);
            return result;
        }
        // What is not empty now could not be emptied, or is being changed: it rests until its live
        // pages are others.
        for segment in choice.segments.keys() {
            let key = key::segment(*segment);
            if let Some(value) = self.kv.get(Table::Meta, &key)? {
                let live = Segment::decode(&key, &value)?.live;
                if live > 0 {
                    tidying.resting.insert((*segment, live));
                }
            }
        }
        if is_quiet {
            // What this itself has moved ends no quiet time.
            tidying.deaths = self.state.lock().deaths;
        }
        result
    }

    /// Whether nothing has died for so long that more is worth collecting.
    fn is_quiet_for_long(&self, tidying: &Tidying) -> bool {
        let since = tidying.quiet_since;
        since.is_some_and(|since| since.elapsed() >= self.limits.quiet)
    }

    fn choose(&self, tidying: &mut Tidying, percent: u64) -> Result<Choice> {
        let limits = &self.limits;
        // What is moved at once makes a segment: one of that size gains nothing by another move.
        let small_pages = limits.small_pages.min(limits.piece / PAGE);
        let mut dead = Vec::new();
        let (mut sparse, mut small) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        each(&*self.kv, Table::Meta, key::SEGMENTS, &mut |key, value| {
            let number = key::number(key)?;
            let Segment { live, named } = Segment::decode(key, value)?;
            let rests = tidying.resting.contains(&(number, live));
            if rests {
                seen.insert((number, live));
            }
            if rests || !self.pending.is_settled(number) {
                return Ok(true);
            }
            if live == 0 {
                dead.push(number);
            } else if live * 100 < named * percent {
                sparse.push((live * 1000 / named, number, live));
            } else if named < small_pages {
                small.push((0, number, live));
            }
            Ok(dead.len() < SEGMENTS)
        })?;
        tidying.resting = seen;
        if small.len() < limits.small_segments {
            small.clear();
        }
        sparse.sort_unstable();
        let mut choice = Choice {
            dead,
            segments: BTreeMap::new(),
        };
        let mut sum = 0;
        for (_, number, live) in sparse.into_iter().chain(small) {
            if choice.segments.len() == SEGMENTS || (sum > 0 && sum + live > PIECE) {
                break;
            }
            sum += live;
            choice.segments.insert(number, live);
        }
        Ok(choice)
    }

    /// Moves everything that is live out of `segments`, which have so many live pages each.
    fn empty(&self, segments: &BTreeMap<u64, u64>, percent: u64) -> Result<bool> {
        let found = self.live_extents(segments)?;
        let mut live: HashMap<Block, u64> = HashMap::new();
        for (found, block, _) in &found {
            *live.entry(*block).or_default() += found.extent.pages.end - found.extent.pages.start;
        }
        let is_whole = |block: &Block| live[block] * 100 >= pages_of(block) * percent;
        let mut moved = 0;
        for part in in_parts(found, self.limits.piece / PAGE) {
            let flight = self.pending.begin();
            let mut named: BTreeMap<u64, u64> = BTreeMap::new();
            let (whole, pieces): (Vec<_>, Vec<_>) =
                part.into_iter().partition(|(_, block, _)| is_whole(block));
            let mut moves = self.move_whole(whole, &mut named)?;
            match self.pack_anew(pieces, &mut named) {
                Ok(packed) => moves.extend(packed),
                Err(error) => {
                    // No commit was asked to name them, and the disk may be full.
                    named.retain(|segment, _| self.blocks.delete(*segment).is_err());
                    self.state.lock().add_unnamed(named.into_keys());
                    return Err(error);
                }
            }
            moved += self.commit_moves(moves, &named)?;
            drop(flight);
        }
        Ok(moved > 0)
    }

    /// Moves blocks as they are.
    fn move_whole(
        &self,
        extents: Vec<(Found, Block, u32)>,
        named: &mut BTreeMap<u64, u64>,
    ) -> Result<Vec<Move>> {
        let mut blocks: Vec<Block> = extents.iter().map(|(_, block, _)| *block).collect();
        // In the order in which they lie, so that they are read one behind the other.
        blocks.sort_unstable_by_key(|block| (block.segment, block.at));
        blocks.dedup();
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let mut moved = HashMap::new();
        for (old, new) in blocks.iter().zip(self.blocks.rewrite(&blocks)?) {
            // What cannot be read stays where it is, for who reads it to be told.
            match new {
                Ok(new) => {
                    *named.entry(new.segment).or_default() += pages_of(&new);
                    moved.insert(*old, new);
                }
                Err(error) => self.troubles.failed(UNMOVED, &error),
            }
        }
        let moves = extents.into_iter().filter_map(|(found, block, within)| {
            let mut extent = found.extent.clone();
            extent.place = Place::Stored {
                block: *moved.get(&block)?,
                within,
            };
            let to = vec![extent];
            Some(Move { found, to })
        });
        Ok(moves.collect())
    }

    /// Packs live pages of blocks into new ones.
    fn pack_anew(
        &self,
        extents: Vec<(Found, Block, u32)>,
        named: &mut BTreeMap<u64, u64>,
    ) -> Result<Vec<Move>> {
        let mut pages = Pages::default();
        let mut read = Vec::new();
        for (found, block, within) in extents {
            match read_one(&*self.blocks, found.file, block) {
                Ok(bytes) => {
                    let count = found.extent.pages.end - found.extent.pages.start;
                    pages.add(&found, part(&bytes, within, count));
                    read.push(found);
                }
                Err(error) => self.troubles.failed(UNMOVED, &error),
            }
        }
        if pages.is_empty() {
            return Ok(Vec::new());
        }
        let written = self.store_pages(pages)?;
        for part in written.values().flatten() {
            *named.entry(part.block.segment).or_default() += part.pages.end - part.pages.start;
        }
        let moves = read.into_iter().map(|found| {
            let written = written.get(&found.file).map_or(&[][..], |parts| parts);
            Move {
                to: parts(&found.extent, written),
                found,
            }
        });
        Ok(moves.collect())
    }

    /// All extents in `segments`, each with its block and first page there.
    fn live_extents(&self, segments: &BTreeMap<u64, u64>) -> Result<Vec<(Found, Block, u32)>> {
        let mut files: BTreeMap<u64, CollectedFile> = BTreeMap::new();
        for segment in segments.keys() {
            for header in self.blocks.headers(*segment)? {
                let count = pages_of(&header.block);
                let file = files.entry(header.ino).or_default();
                file.ranges.push(header.page..header.page + count);
            }
        }
        let mut found = Vec::new();
        for (ino, file) in &mut files {
            file.map = contents(&*self.kv, *ino)?.map;
            if file.map == 0 {
                continue;
            }
            let Some(value) = self.kv.get(Table::Meta, &key::inode(*ino))? else {
                continue;
            };
            file.id = (*ino, Inode::decode(*ino, &value)?.attrs.generation);
            for range in joined(std::mem::take(&mut file.ranges)) {
                self.look_up(file, range, segments, &mut found)?;
            }
        }
        if is_short(segments, &found) {
            for file in files.values_mut().filter(|file| file.map != 0) {
                self.look_up(file, 0..u64::MAX, segments, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Adds the extents of a file that meet `range` and are in `segments`, unless they were seen.
    fn look_up(
        &self,
        file: &mut CollectedFile,
        mut range: Range<u64>,
        segments: &BTreeMap<u64, u64>,
        found: &mut Vec<(Found, Block, u32)>,
    ) -> Result<()> {
        loop {
            let (batch, next) = extents(&*self.kv, file.map, &range, BATCH)?;
            for extent in batch {
                let Place::Stored { block, within } = extent.place else {
                    continue;
                };
                if segments.contains_key(&block.segment) && file.seen.insert(extent.pages.end) {
                    let live = Found {
                        file: file.id,
                        map: file.map,
                        extent,
                        inline: None,
                    };
                    found.push((live, block, within));
                }
            }
            match next {
                Some(next) => range.start = next,
                None => return Ok(()),
            }
        }
    }
}

/// What the collector works on next.
struct Choice {
    /// Segments without a live page.
    dead: Vec<u64>,
    /// Segments to be emptied, with their live pages.
    segments: BTreeMap<u64, u64>,
}

/// A file with blocks in a segment.
#[derive(Default)]
struct CollectedFile {
    id: (u64, u32),
    map: u64,
    /// Pages that its blocks were written for.
    ranges: Vec<Range<u64>>,
    /// Ends of its extents that were found.
    seen: BTreeSet<u64>,
}

fn pages_of(block: &Block) -> u64 {
    u64::from(block.length).div_ceil(4096)
}

/// Extents in parts of about `most` pages. Those of one block are in one part, so that a block is
/// read once and moves once.
fn in_parts(mut found: Vec<(Found, Block, u32)>, most: u64) -> Vec<Vec<(Found, Block, u32)>> {
    found.sort_by_key(|(_, block, _)| (block.segment, block.at));
    let mut parts: Vec<Vec<(Found, Block, u32)>> = Vec::new();
    let (mut pages, mut last) = (most, None);
    for one in found {
        let block = one.1;
        if last != Some(block) {
            if pages >= most {
                parts.push(Vec::new());
                pages = 0;
            }
            pages += pages_of(&block);
            last = Some(block);
        }
        if let Some(part) = parts.last_mut() {
            part.push(one);
        }
    }
    parts
}

/// Whether fewer pages were found than are live.
fn is_short(segments: &BTreeMap<u64, u64>, found: &[(Found, Block, u32)]) -> bool {
    let live: u64 = segments.values().sum();
    let pages = found.iter().map(|(found, ..)| &found.extent.pages);
    pages.map(|pages| pages.end - pages.start).sum::<u64>() < live
}

/// Ranges by rising start, with those that touch in one.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
