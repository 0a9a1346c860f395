//! Extents that the engine has lost, found again by the headers of blocks: each says of which file
//! and which range it is, and in which epoch it was written.
//!
//! Headers do not tell what was cut since, nor what small syncs wrote beside the segments. So what
//! is found is put where the file has fewer pages than it says, and is reported as a loss.

use super::code::Code;
use super::contents::{NamedBlocks, Short};
use super::data::{Data, Listed, StoredHeader};
use super::edits::put;
use super::edits::{LOST, extents};
use super::meta::Meta;
use super::report::{About, Report, Stage};
use super::sorted::record;
use super::{Step, Watch};
use crate::error::Result;
use crate::kv::{Read, Table};
use crate::schema::{Block, Contents, Extent, Inode, Place, key};
use hearth_backend::Kind;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

const PAGE: u64 = 4096;
/// Pages of files that are looked for at once; a later round of a repair looks for the others.
const MOST: usize = 1 << 20;

/// A file that misses pages.
struct LostFile {
    short: Short,
    /// Ranges of it without an extent, rising.
    holes: Vec<Range<u64>>,
    /// The newest block of each page in them, with its epoch and the page in it.
    found: BTreeMap<u64, (u64, Block, u32)>,
}

/// Looks for the extents of files that have fewer pages than they say.
pub fn check(
    view: &dyn Read,
    data: &dyn Data,
    listed: &Listed,
    (meta, named): (&mut Meta, &mut NamedBlocks),
    report: &mut Report,
    watch: Watch<'_>,
) -> Result<()> {
    let mut files = HashMap::new();
    for short in std::mem::take(&mut named.short) {
        let value = view.get(Table::Meta, &key::inode(short.ino))?;
        let inode = value.and_then(|value| Inode::decode(short.ino, &value).ok());
        let attrs = inode.map(|inode| inode.attrs);
        let holes = holes(view, &short)?;
        match attrs.filter(|attrs| attrs.kind == Kind::File) {
            Some(attrs) if !holes.is_empty() => {
                let found = BTreeMap::new();
                let file = LostFile {
                    short,
                    holes,
                    found,
                };
                files.insert((file.short.ino, attrs.generation), file);
            }
            // Its count alone is wrong.
            _ => named.pages.push(record(&[short.ino, short.found]))?,
        }
    }
    if files.is_empty() {
        return Ok(());
    }
    let (mut pages, of) = (0, Some(listed.segments.len() as u64));
    for (done, (segment, _)) in listed.segments.iter().enumerate() {
        let (what, done) = ("lost extents", done as u64);
        watch(Step { what, done, of });
        for header in data.headers(*segment)? {
            if let Some(file) = files.get_mut(&(header.ino, header.generation))
                && pages < MOST
            {
                pages += file.take(&header);
            }
        }
    }
    let mut files: Vec<LostFile> = files.into_values().collect();
    files.sort_unstable_by_key(|file| file.short.ino);
    for file in files {
        file.settle(view, meta, named, report)?;
    }
    Ok(())
}

/// Ranges below the end of a file that have no extent.
fn holes(view: &dyn Read, short: &Short) -> Result<Vec<Range<u64>>> {
    let end = short.size.div_ceil(PAGE);
    let (mut holes, mut at) = (Vec::new(), 0);
    if !short.is_unread {
        let from = key::extent(short.map, 0);
        let to = key::extent(short.map.saturating_add(1), 0);
        view.scan(Table::Extents, &from, Some(&to), &mut |key, value| {
            if let Ok(extent) = Extent::decode(key, value) {
                if extent.pages.start > at {
                    holes.push(at..extent.pages.start.min(end));
                }
                at = at.max(extent.pages.end);
            }
            at < end
        })?;
    }
    holes.push(at..end);
    holes.retain(|hole| !hole.is_empty());
    Ok(holes)
}

impl LostFile {
    /// Takes the pages of a block that lie in holes, if no newer block has them; returns how many
    /// pages are new.
    fn take(&mut self, header: &StoredHeader) -> usize {
        let count = u64::from(header.block.length) / PAGE;
        let before = self.found.len();
        for within in 0..count {
            let Some(page) = header.page.checked_add(within) else {
                break;
            };
            let at = self.holes.partition_point(|hole| hole.end <= page);
            if self.holes.get(at).is_none_or(|hole| !hole.contains(&page)) {
                continue;
            }
            let new = (header.epoch, header.block, within as u32);
            let place = self.found.entry(page).or_insert(new);
            let age = |found: &(u64, Block, u32)| (found.0, found.1.segment, found.1.at);
            if age(&new) > age(place) {
                *place = new;
            }
        }
        self.found.len() - before
    }

    /// Says what is lost and what was found, and puts it back.
    fn settle(
        mut self,
        view: &dyn Read,
        meta: &mut Meta,
        named: &mut NamedBlocks,
        report: &mut Report,
    ) -> Result<()> {
        let missing = self.short.says.saturating_sub(self.short.found);
        let place = About::Inode(self.short.ino);
        let found = self.found.len() as u64;
        let in_holes: u64 = self.holes.iter().map(|hole| hole.end - hole.start).sum();
        if found > 0 {
            let detail = format!("{missing} pages are missing, blocks of {found} are there");
            report.find(Code::FoundAgain, place.clone(), detail);
        }
        // Where every page had bytes, those without a block are known to be lost; where some were
        // cut since, nobody knows which.
        let is_in_doubt = found > missing;
        let is_dense = in_holes == missing;
        if found != missing {
            let detail = format!("{missing} pages are missing, blocks of {found} are there");
            report.find(Code::Missing, place, detail);
        }
        if is_in_doubt {
            self.found
                .values_mut()
                .for_each(|(_, block, within)| (*block, *within) = (LOST_BLOCK, 0));
        }
        let mut pages = self.short.found + found;
        let mut all = self.extents();
        if is_dense && found < missing {
            all.extend(self.without_a_block());
            pages = self.short.says;
        }
        self.put(view, meta, named, report, all)?;
        if pages != self.short.says {
            named.pages.push(record(&[self.short.ino, pages]))?;
        }
        Ok(())
    }

    /// Extents of the pages that were found.
    fn extents(&self) -> Vec<Extent> {
        let mut all: Vec<Extent> = Vec::new();
        for (page, (_, block, within)) in &self.found {
            if let Some(last) = all.last_mut()
                && last.pages.end == *page
                && let Place::Stored {
                    block: same,
                    within: first,
                } = &last.place
                && same == block
                && (block.segment == LOST
                    || u64::from(*first) + (page - last.pages.start) == u64::from(*within))
            {
                last.pages.end += 1;
                continue;
            }
            all.push(Extent {
                pages: *page..page + 1,
                place: Place::Stored {
                    block: *block,
                    within: *within,
                },
            });
        }
        all
    }

    /// Extents of the holes that no block was found for: reads of them fail.
    fn without_a_block(&self) -> Vec<Extent> {
        let mut all = Vec::new();
        let place = Place::Stored {
            block: LOST_BLOCK,
            within: 0,
        };
        for hole in &self.holes {
            let mut at = hole.start;
            for page in self.found.range(hole.clone()).map(|(page, _)| *page) {
                if page > at {
                    let pages = at..page;
                    all.push(Extent { pages, place });
                }
                at = page + 1;
            }
            if at < hole.end {
                let pages = at..hole.end;
                all.push(Extent { pages, place });
            }
        }
        all
    }

    /// Puts extents under the map of the file. One that cannot be read stays as it is, and the file
    /// gets another.
    fn put(
        &self,
        view: &dyn Read,
        meta: &mut Meta,
        named: &mut NamedBlocks,
        report: &mut Report,
        all: Vec<Extent>,
    ) -> Result<()> {
        let ino = self.short.ino;
        let mut map = self.short.map;
        if self.short.is_unread {
            map = meta.counters.next_map;
            meta.counters.next_map += 1;
            let value = view.get(Table::Meta, &key::contents(ino))?;
            let says = value.and_then(|value| Contents::decode(ino, &value).ok());
            let says = Contents {
                map,
                ..says.unwrap_or_default()
            };
            report.fix(Stage::Contents, put(&key::contents(ino), says.encode()));
            let counters = meta.counters.encode();
            report.fix(Stage::Contents, put(key::COUNTERS, counters));
        }
        for extent in all {
            if let Place::Stored { block, .. } = &extent.place {
                let count = extent.pages.end - extent.pages.start;
                *named.live.entry(block.segment).or_default() += count;
            }
            let key = key::extent(map, extent.pages.end - 1);
            report.fix(Stage::Contents, extents(key, Some(extent.encode())));
        }
        Ok(())
    }
}

/// A block that is nowhere.
const LOST_BLOCK: Block = Block {
    segment: LOST,
    at: 0,
    stored: 0,
    length: 0,
    codec: 0,
    digest: [0; 16],
};
