//! One pass over the keys of `extents`: extents by map, beside the inline bytes and beside the
//! files that have the maps.

use super::block::{BLOCK, block_record};
use super::code::Code;
use super::cursor::Cursor;
use super::data::Listed;
use super::edits::{LOST, age, copied, cut, extents};
use super::edits::{put, remove};
use super::inodes::PAGES;
use super::meta::{self, FILE, Meta};
use super::report::{About as At, Report, Stage};
use super::sorted::{Sorted, Sorter, number, record};
use super::{Step, Watch};
use crate::error::{Error, Result};
use crate::kv::{Read, Table};
use crate::schema::{Block, Contents, Extent, Inode, PAGES_MAX, Place, encode_unwritten, key};
use std::collections::HashMap;
use std::ops::Range;

mod inline;
mod unread;

const PAGE: u64 = 4096;
/// Bytes before a block in its segment.
const HEADER: u64 = 64;
/// Pages of a block at most.
const BLOCK_PAGES: u64 = 16;

/// The first byte of a page. A damaged extent may have pages that no file has.
fn byte_of(page: u64) -> u64 {
    page.saturating_mul(PAGE)
}

/// What extents name of segments.
#[derive(Default)]
pub struct NamedBlocks {
    /// Live pages of each segment.
    pub live: HashMap<u64, u64>,
    /// Each block, with an inode that has it, in the order in which they lie on the disk.
    pub blocks: Sorter<BLOCK>,
    /// Whether there are extents that cannot be read, so that less is counted than there is.
    pub is_partial: bool,
    /// Files that have fewer pages than they say.
    pub short: Vec<Short>,
    /// Inodes that have not as many pages as they say.
    pub pages: Sorter<PAGES>,
}

/// Checks all extents, and counts the pages of files.
pub fn check(
    view: &dyn Read,
    meta: &mut Meta,
    listed: &Listed,
    report: &mut Report,
    keep_blocks: bool,
    watch: Watch<'_>,
) -> Result<NamedBlocks> {
    let files = std::mem::take(&mut meta.maps).finish()?;
    let mut pass = ContentsPass {
        view,
        listed: listed.segments.iter().copied().collect(),
        files,
        next_map: meta.counters.next_map,
        meta,
        report,
        inline: Cursor::new(view, Table::Extents, key::INLINES),
        map: None,
        before: None,
        lost: None,
        named: NamedBlocks::default(),
        unwritten: 0,
        keep_blocks: keep_blocks.then_some(None),
        failed: None,
    };
    let (mut done, mut from) = (0, Box::default());
    loop {
        let scanned = view.scan(Table::Extents, &from, None, &mut |key, value| {
            if let Err(error) = pass.key(key, value) {
                pass.failed = Some(error);
                return false;
            }
            done += 1;
            if done % 1024 == 0 {
                let (what, of) = ("extents", None);
                watch(Step { what, done, of });
            }
            true
        });
        if let Some(error) = pass.failed.take() {
            return Err(error);
        }
        match scanned {
            Err(error) if error.is_lost() => match pass.behind_damage(&error)? {
                Some(next) => from = next,
                None => break,
            },
            other => {
                other?;
                break;
            }
        }
    }
    pass.end()
}

/// A file that has fewer pages than it says.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    /// Inode.
    pub ino: u64,
    /// Its map.
    pub map: u64,
    /// Its size.
    pub size: u64,
    /// Pages as it says, and as were found.
    pub says: u64,
    pub found: u64,
    /// Whether the extents of its map cannot be read.
    pub is_unread: bool,
}

/// Files with fewer pages that are looked at at once; a later round of a repair looks at others.
const SHORT: usize = 10_000;

/// A file whose map comes.
#[derive(Clone, Copy)]
struct MapOwner {
    ino: u64,
    size: u64,
    /// Pages as it says.
    pages: u64,
}

/// Bytes of a file that are lost, in extents side by side: one finding. A file of a segment that is
/// gone has hundreds of them.
struct LostRun {
    code: Code,
    pages: Range<u64>,
    /// Where they are not, if it is in a segment.
    segment: Option<u64>,
}

/// The map whose extents come.
struct MapScan {
    number: u64,
    /// More than one only in a damaged volume.
    owners: Vec<MapOwner>,
    /// Pages that were found.
    pages: u64,
    /// Whether its extents cannot be read.
    is_unread: bool,
}

struct ContentsPass<'a> {
    view: &'a dyn Read,
    /// Lengths of segments.
    listed: HashMap<u64, u64>,
    /// By map.
    files: Sorted<FILE>,
    /// The map that a file gets whose map is another one's.
    next_map: u64,
    meta: &'a mut Meta,
    report: &'a mut Report,
    inline: Cursor<'a>,
    map: Option<MapScan>,
    /// The extent before in it, unless that is to be changed.
    before: Option<Extent>,
    /// What is lost of it, and not reported yet.
    lost: Option<LostRun>,
    named: NamedBlocks,
    /// Pages that are allocated and not written.
    unwritten: u64,
    /// Whether blocks are to be kept, and the last one.
    keep_blocks: Option<Option<Block>>,
    failed: Option<Error>,
}

impl ContentsPass<'_> {
    fn key(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match (key.first(), key::page(key)) {
            (Some(b'B'), Ok(_)) => Ok(()),
            (Some(b'E'), Ok((map, last))) => {
                self.enter(map)?;
                match Extent::decode(key, value) {
                    Ok(extent) => self.extent(map, extent),
                    Err(_) => {
                        self.unread(map, last);
                        Ok(())
                    }
                }
            }
            (Some(b'B' | b'E'), Err(_)) => {
                let detail = "its length makes no sense";
                self.report.find(Code::BadValue, meta::shown(key), detail);
                self.report.fix(Stage::Values, remove(Table::Extents, key));
                Ok(())
            }
            _ => {
                let detail = format!("{} bytes", value.len());
                self.report.find(Code::UnknownKey, meta::shown(key), detail);
                Ok(())
            }
        }
    }

    /// Extents of `map` come.
    fn enter(&mut self, map: u64) -> Result<()> {
        if self.map.as_ref().is_some_and(|now| now.number == map) {
            return Ok(());
        }
        self.leave()?;
        // Files whose maps have no extent.
        while self.files.peek().is_some_and(|next| number(next, 0) < map) {
            self.next_files()?;
            self.leave()?;
        }
        if self.files.peek().is_some_and(|next| number(next, 0) == map) {
            return self.next_files();
        }
        self.map = Some(MapScan {
            number: map,
            owners: Vec::new(),
            pages: 0,
            is_unread: false,
        });
        if !self.meta.dying.contains(&map) {
            let detail = format!("map {map}");
            self.report.find(Code::LeftMap, At::Volume, detail);
            let dying = put(&key::dying(map), Box::default());
            self.report.fix(Stage::Contents, dying);
        }
        Ok(())
    }

    /// Takes the next map that files have.
    fn next_files(&mut self) -> Result<()> {
        let Some(first) = self.files.next()? else {
            return Ok(());
        };
        let owner = |file: [u8; FILE]| MapOwner {
            ino: number(&file, 1),
            size: number(&file, 2),
            pages: number(&file, 3),
        };
        let mut map = MapScan {
            number: number(&first, 0),
            owners: vec![owner(first)],
            pages: 0,
            is_unread: false,
        };
        while (self.files.peek()).is_some_and(|next| number(next, 0) == map.number) {
            if let Some(second) = self.files.next()?.map(owner) {
                self.shared(map.number, map.owners[0].ino, second.ino)?;
                map.owners.push(second);
            }
        }
        if self.meta.dying.contains(&map.number) {
            let detail = format!("map {}", map.number);
            let place = At::Inode(map.owners[0].ino);
            self.report.find(Code::LiveMap, place, detail);
            let op = remove(Table::Meta, &key::dying(map.number));
            self.report.fix(Stage::Contents, op);
        }
        self.map = Some(map);
        Ok(())
    }

    /// Gives the second of two files with one map a map of its own.
    fn shared(&mut self, map: u64, first: u64, second: u64) -> Result<()> {
        let detail = format!("the same as inode {first}");
        self.report.find(Code::SharedMap, At::Inode(second), detail);
        let value = self.view.get(Table::Meta, &key::contents(second))?;
        let says = value.and_then(|value| Contents::decode(second, &value).ok());
        let value = self.view.get(Table::Meta, &key::inode(second))?;
        let inode = value.and_then(|value| Inode::decode(second, &value).ok());
        let generation = inode.map_or(0, |inode| inode.attrs.generation);
        for op in copied(self.view, map, self.next_map, (second, generation))? {
            self.report.fix(Stage::Contents, op);
        }
        let mut says = says.unwrap_or_default();
        says.map = self.next_map;
        let op = put(&key::contents(second), says.encode());
        self.report.fix(Stage::Contents, op);
        self.next_map += 1;
        Ok(())
    }

    /// All extents of the map were seen.
    fn leave(&mut self) -> Result<()> {
        self.report_lost();
        self.before = None;
        let Some(map) = self.map.take() else {
            return Ok(());
        };
        for owner in map.owners {
            let counted = &mut self.report.counted.pages;
            *counted = counted.saturating_add(map.pages);
            if map.pages > owner.pages {
                self.named.pages.push(record(&[owner.ino, map.pages]))?;
            } else if map.pages < owner.pages && self.named.short.len() < SHORT {
                self.named.short.push(Short {
                    ino: owner.ino,
                    map: map.number,
                    size: owner.size,
                    says: owner.pages,
                    found: map.pages,
                    is_unread: map.is_unread,
                });
            }
        }
        Ok(())
    }

    /// The first of the files whose map comes.
    fn file(&self) -> Option<MapOwner> {
        self.map.as_ref()?.owners.first().copied()
    }

    fn ino(&self) -> At {
        self.file().map_or(At::Volume, |file| At::Inode(file.ino))
    }

    /// An extent that cannot be read stands for at most a block before its last page. What is put
    /// there cannot be read either, so that the rest of the file can.
    fn unread(&mut self, map: u64, last: u64) {
        let after = self.before.as_ref().map_or(0, |before| before.pages.end);
        let end = last.saturating_add(1);
        let pages = after.max(end.saturating_sub(BLOCK_PAGES)).min(last)..end;
        let detail = format!("ends at byte {}", byte_of(pages.end));
        self.report.find(Code::BadExtent, self.ino(), detail);
        let block = Block {
            segment: LOST,
            at: 0,
            stored: 0,
            length: (BLOCK_PAGES * PAGE) as u32,
            codec: 0,
            digest: [0; 16],
        };
        let place = Place::Stored { block, within: 0 };
        let value = Extent { pages, place }.encode();
        let op = extents(key::extent(map, last), Some(value));
        self.report.fix(Stage::Values, op);
    }

    fn extent(&mut self, map: u64, extent: Extent) -> Result<()> {
        self.report.counted.extents += 1;
        if let Some(now) = &mut self.map {
            let count = extent.pages.end - extent.pages.start;
            now.pages = now.pages.saturating_add(count);
        }
        self.place(map, &extent)?;
        let overlap = self
            .before
            .take()
            .filter(|b| b.pages.end > extent.pages.start);
        if let Some(before) = overlap {
            return self.overlap(map, &before, &extent);
        }
        if self.behind_end(map, &extent)? {
            return Ok(());
        }
        self.before = Some(extent);
        Ok(())
    }

    /// Whether the bytes of an extent can be there.
    fn place(&mut self, map: u64, extent: &Extent) -> Result<()> {
        let Range { start, end } = extent.pages;
        match &extent.place {
            Place::Unwritten => self.unwritten = self.unwritten.saturating_add(end - start),
            Place::Inline => {
                if self.inline_at((map, end - 1))? != Some(start) {
                    self.lose(Code::NoInline, start..end, None);
                }
            }
            Place::Stored { block, within } => {
                let live = self.named.live.entry(block.segment).or_default();
                *live = live.saturating_add(end - start);
                let ino = self.file().map_or(0, |file| file.ino);
                if let Some(last) = self.keep_blocks.as_mut().filter(|l| **l != Some(*block)) {
                    *last = Some(*block);
                    self.named.blocks.push(block_record(block, ino))?;
                }
                let in_block = (u64::from(*within) + (end - start)).saturating_mul(PAGE);
                let in_segment = u64::from(block.at) + HEADER + u64::from(block.stored);
                let code = match self.listed.get(&block.segment) {
                    None => Some(Code::NoSegment),
                    Some(&len) => (in_segment > len || in_block > u64::from(block.length))
                        .then_some(Code::Short),
                };
                if let Some(code) = code {
                    self.lose(code, start..end, Some(block.segment));
                }
            }
        }
        Ok(())
    }

    /// An extent whose bytes are lost.
    fn lose(&mut self, code: Code, pages: Range<u64>, segment: Option<u64>) {
        if let Some(run) = &mut self.lost
            && (run.code, run.pages.end, run.segment) == (code, pages.start, segment)
        {
            run.pages.end = pages.end;
            return;
        }
        self.report_lost();
        self.lost = Some(LostRun {
            code,
            pages,
            segment,
        });
    }

    fn report_lost(&mut self) {
        let Some(run) = self.lost.take() else { return };
        let (from, to) = (byte_of(run.pages.start), byte_of(run.pages.end));
        let mut detail = format!("bytes {from} to {to}");
        if let Some(segment) = run.segment {
            detail += &format!(", segment {segment:016x}");
        }
        self.report.find(run.code, self.ino(), detail);
    }

    /// Two extents overlap: the newer one keeps what both have.
    fn overlap(&mut self, map: u64, before: &Extent, extent: &Extent) -> Result<()> {
        let both = extent.pages.start.max(before.pages.start)..before.pages.end;
        let detail = format!("bytes {} to {}", byte_of(both.start), byte_of(both.end));
        self.report.find(Code::Overlap, self.ino(), detail);
        let ops = if age(extent) >= age(before) {
            cut(
                self.view,
                map,
                before,
                before.pages.start..extent.pages.start,
            )?
        } else {
            cut(self.view, map, extent, before.pages.end..extent.pages.end)?
        };
        for op in ops {
            self.report.fix(Stage::Contents, op);
        }
        Ok(())
    }

    /// Whether the extent is written and reaches behind the page that the file ends in, or behind
    /// the last one that any file has.
    fn behind_end(&mut self, map: u64, extent: &Extent) -> Result<bool> {
        let Some(file) = self.file() else {
            return Ok(false);
        };
        let end = match extent.place {
            Place::Unwritten => PAGES_MAX,
            Place::Inline | Place::Stored { .. } => file.size.div_ceil(PAGE).min(PAGES_MAX),
        };
        if extent.pages.end <= end {
            return Ok(false);
        }
        let up_to = byte_of(extent.pages.end);
        let detail = format!("up to byte {up_to}, size {}", file.size);
        self.report
            .find(Code::BehindEnd, At::Inode(file.ino), detail);
        for op in cut(self.view, map, extent, extent.pages.start..end)? {
            self.report.fix(Stage::Contents, op);
        }
        Ok(true)
    }

    /// All extents were seen.
    fn end(mut self) -> Result<NamedBlocks> {
        self.inline_at((u64::MAX, u64::MAX))?;
        self.leave()?;
        while self.files.peek().is_some() {
            self.next_files()?;
            self.leave()?;
        }
        if self.next_map != self.meta.counters.next_map {
            self.meta.counters.next_map = self.next_map;
            let value = self.meta.counters.encode();
            let op = put(key::COUNTERS, value);
            self.report.fix(Stage::Contents, op);
        }
        let says = self.meta.unwritten;
        if says != self.unwritten && !self.named.is_partial {
            let detail = format!("{says}, and {} are there", self.unwritten);
            self.report.find(Code::Unwritten, At::Volume, detail);
            let op = match self.unwritten {
                0 => remove(Table::Meta, key::UNWRITTEN),
                pages => put(key::UNWRITTEN, encode_unwritten(pages)),
            };
            self.report.fix(Stage::Counts, op);
        }
        Ok(self.named)
    }
}
