//! One pass over the keys of `extents`: inline bytes come before extents, and those by map.

use super::code::Code;
use super::data::Listed;
use super::inodes::FileInfo;
use super::meta::{self, Meta, remove};
use super::report::{About as At, Report, Stage};
use super::{Step, Watch};
use crate::error::{Error, Result};
use crate::kv::{KvOp, Read, Table};
use crate::schema::{Block, Extent, Inline, Place, key, part};
use hearth_backend::Kind;
use std::collections::HashMap;
use std::ops::Range;

const PAGE: u64 = 4096;
/// Bytes before a block in its segment.
const HEADER: u64 = 64;
/// Pages of a block at most.
const BLOCK_PAGES: u64 = 16;
/// The segment that is named where it is not known which one it was. It never exists.
const LOST: u64 = u64::MAX;

/// What extents name of segments.
#[derive(Debug, Default)]
pub struct Named {
    /// Live pages of each segment.
    pub live: HashMap<u64, u64>,
    /// Each block, with an inode that has it.
    pub blocks: Vec<(Block, u64)>,
}

/// Checks all extents, and counts the pages of files.
pub fn check(
    view: &dyn Read,
    meta: &mut Meta,
    listed: &Listed,
    report: &mut Report,
    keep_blocks: bool,
    watch: Watch<'_>,
) -> Result<Named> {
    let owners = owners(meta);
    shared_maps(view, meta, &owners, report)?;
    let mut pass = ContentsPass {
        view,
        listed: listed.segments.iter().copied().collect(),
        owners: &owners,
        meta,
        report,
        inline: HashMap::new(),
        map: None,
        before: None,
        named: Named::default(),
        keep_blocks,
        failed: None,
    };
    let mut done = 0;
    let scanned = view.scan(Table::Extents, &[], None, &mut |key, value| {
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
    pass.end();
    let named = pass.named;
    match scanned {
        Err(error @ Error::Corrupt { .. }) => meta::report_of_engine(report, &error),
        other => other?,
    }
    pages(meta, report);
    Ok(named)
}

/// Maps and which of the files each belongs to, by rising map.
fn owners(meta: &Meta) -> Vec<(u64, usize)> {
    let files = meta.inodes.files.iter().enumerate();
    let mut owners: Vec<_> = files
        .filter(|(_, file)| file.says.map != 0)
        // One whose inode is not there is made anew.
        .filter(|(_, file)| {
            meta.inodes
                .get(file.ino)
                .is_none_or(|i| i.kind == Kind::File)
        })
        .map(|(at, file)| (file.says.map, at))
        .collect();
    owners.sort_unstable();
    owners
}

/// Gives the second of two files with one map a map of its own.
fn shared_maps(
    view: &dyn Read,
    meta: &mut Meta,
    owners: &[(u64, usize)],
    report: &mut Report,
) -> Result<()> {
    let mut next = meta.counters.next_map;
    for two in owners.windows(2).filter(|two| two[0].0 == two[1].0) {
        let (map, second) = two[1];
        let file = meta.inodes.files[second];
        let detail = format!("the same as inode {}", meta.inodes.files[two[0].1].ino);
        report.find(Code::SharedMap, At::Inode(file.ino), detail);
        let generation = meta.inodes.get(file.ino).map_or(0, |info| info.generation);
        for op in copied(view, map, next, (file.ino, generation))? {
            report.fix(Stage::Contents, op);
        }
        let mut says = file.says;
        says.map = next;
        report.fix(
            Stage::Contents,
            meta::put(&key::contents(file.ino), says.encode()),
        );
        next += 1;
    }
    if next != meta.counters.next_map {
        meta.counters.next_map = next;
        let value = meta.counters.encode();
        report.fix(Stage::Contents, meta::put(key::COUNTERS, value));
    }
    Ok(())
}

/// Changes that copy the extents of a map under another one, for a file.
fn copied(view: &dyn Read, map: u64, to: u64, file: (u64, u32)) -> Result<Vec<KvOp>> {
    let mut ops = Vec::new();
    let (from, end) = (key::extent(map, 0), key::extent(map.saturating_add(1), 0));
    view.scan(Table::Extents, &from, Some(&end), &mut |key, value| {
        if let Ok((_, last)) = key::page(key) {
            ops.push(extents(key::extent(to, last), Some(value.into())));
        }
        true
    })?;
    let (from, end) = (key::inline(map, 0), key::inline(map.saturating_add(1), 0));
    view.scan(Table::Extents, &from, Some(&end), &mut |key, value| {
        if let (Ok((_, last)), Ok(inline)) = (key::page(key), Inline::decode(key, value)) {
            let (ino, generation) = file;
            let inline = Inline {
                ino,
                generation,
                ..inline
            };
            ops.push(extents(key::inline(to, last), Some(inline.encode())));
        }
        true
    })?;
    Ok(ops)
}

/// Compares the pages that files say with those that were found.
fn pages(meta: &Meta, report: &mut Report) {
    for file in &meta.inodes.files {
        report.counted.pages += file.pages;
        let is_there = meta.inodes.get(file.ino).is_some();
        if is_there && file.pages != file.says.pages {
            let detail = format!("{}, and {} are there", file.says.pages, file.pages);
            report.find(Code::Pages, At::Inode(file.ino), detail);
            let mut says = file.says;
            says.pages = file.pages;
            report.fix(
                Stage::Counts,
                meta::put(&key::contents(file.ino), says.encode()),
            );
        }
    }
}

struct ContentsPass<'a> {
    view: &'a dyn Read,
    /// Lengths of segments.
    listed: HashMap<u64, u64>,
    owners: &'a [(u64, usize)],
    meta: &'a mut Meta,
    report: &'a mut Report,
    /// First page of inline bytes, by map and last page; `None` where they cannot be read.
    inline: HashMap<(u64, u64), Option<u64>>,
    /// The map whose extents come, and the places of its files.
    map: Option<(u64, Range<usize>)>,
    /// The extent before in it, unless that is to be changed.
    before: Option<Extent>,
    named: Named,
    keep_blocks: bool,
    failed: Option<Error>,
}

impl ContentsPass<'_> {
    fn key(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match (key.first(), key::page(key)) {
            (Some(b'B'), Ok(at)) => {
                let inline = Inline::decode(key, value).ok();
                self.inline.insert(at, inline.map(|inline| inline.first));
                Ok(())
            }
            (Some(b'E'), Ok((map, last))) => {
                self.enter(map);
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
    fn enter(&mut self, map: u64) {
        if self.map.as_ref().is_some_and(|(now, _)| *now == map) {
            return;
        }
        self.before = None;
        let from = self.owners.partition_point(|(of, _)| *of < map);
        let to = self.owners.partition_point(|(of, _)| *of <= map);
        self.map = Some((map, from..to));
        if from == to && !self.meta.dying.contains(&map) {
            let detail = format!("map {map}");
            self.report.find(Code::LeftMap, At::Volume, detail);
            let dying = meta::put(&key::dying(map), Box::default());
            self.report.fix(Stage::Contents, dying);
        }
    }

    /// The first of the files whose map comes.
    fn file(&self) -> Option<&FileInfo> {
        let (_, owners) = self.map.as_ref()?;
        let (_, at) = self.owners[owners.clone()].first()?;
        self.meta.inodes.files.get(*at)
    }

    fn ino(&self) -> At {
        self.file().map_or(At::Volume, |file| At::Inode(file.ino))
    }

    /// An extent that cannot be read stands for at most a block before its last page. What is put
    /// there cannot be read either, so that the rest of the file can.
    fn unread(&mut self, map: u64, last: u64) {
        let after = self.before.as_ref().map_or(0, |before| before.pages.end);
        let pages = after.max((last + 1).saturating_sub(BLOCK_PAGES)).min(last)..last + 1;
        let detail = format!("ends at byte {}", pages.end * PAGE);
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
        let count = extent.pages.end - extent.pages.start;
        self.report.counted.extents += 1;
        if let Some((_, owners)) = &self.map {
            for (_, at) in &self.owners[owners.clone()] {
                self.meta.inodes.files[*at].pages += count;
            }
        }
        self.place(map, &extent);
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
    fn place(&mut self, map: u64, extent: &Extent) {
        let Range { start, end } = extent.pages;
        let bytes = format!("bytes {} to {}", start * PAGE, end * PAGE);
        match &extent.place {
            Place::Unwritten => {}
            Place::Inline => {
                if self.inline.remove(&(map, end - 1)) != Some(Some(start)) {
                    self.report.find(Code::NoInline, self.ino(), bytes);
                }
            }
            Place::Stored { block, within } => {
                *self.named.live.entry(block.segment).or_default() += end - start;
                let ino = self.file().map_or(0, |file| file.ino);
                let is_new = self
                    .named
                    .blocks
                    .last()
                    .is_none_or(|(last, _)| last != block);
                if self.keep_blocks && is_new {
                    self.named.blocks.push((*block, ino));
                }
                let in_block = (u64::from(*within) + (end - start)).saturating_mul(PAGE);
                let in_segment = u64::from(block.at) + HEADER + u64::from(block.stored);
                let detail = format!("{bytes}, segment {:016x}", block.segment);
                match self.listed.get(&block.segment) {
                    None => self.report.find(Code::NoSegment, self.ino(), detail),
                    Some(&len) if in_segment > len || in_block > u64::from(block.length) => {
                        self.report.find(Code::Short, self.ino(), detail);
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// Two extents overlap: the newer one keeps what both have.
    fn overlap(&mut self, map: u64, before: &Extent, extent: &Extent) -> Result<()> {
        let both = extent.pages.start.max(before.pages.start)..before.pages.end;
        let detail = format!("bytes {} to {}", both.start * PAGE, both.end * PAGE);
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

    /// Whether the extent is written and reaches behind the page that the file ends in.
    fn behind_end(&mut self, map: u64, extent: &Extent) -> Result<bool> {
        let Some(file) = self.file().filter(|_| extent.place != Place::Unwritten) else {
            return Ok(false);
        };
        let end = file.says.size.div_ceil(PAGE);
        if extent.pages.end <= end {
            return Ok(false);
        }
        let detail = format!(
            "up to byte {}, size {}",
            extent.pages.end * PAGE,
            file.says.size
        );
        self.report
            .find(Code::BehindEnd, At::Inode(file.ino), detail);
        for op in cut(self.view, map, extent, extent.pages.start..end)? {
            self.report.fix(Stage::Contents, op);
        }
        Ok(true)
    }

    /// Inline bytes that no extent has named.
    fn end(&mut self) {
        let mut left: Vec<_> = self.inline.drain().map(|(at, _)| at).collect();
        left.sort_unstable();
        for (map, last) in left {
            let key = key::inline(map, last);
            let detail = format!("map {map}, page {last}");
            self.report.find(Code::NoExtent, meta::shown(&key), detail);
            self.report
                .fix(Stage::Contents, remove(Table::Extents, &key));
        }
    }
}

/// What is newer has the larger number.
fn age(extent: &Extent) -> u64 {
    match &extent.place {
        Place::Unwritten => 0,
        Place::Stored { block, .. } if block.segment == LOST => 0,
        Place::Stored { block, .. } => block.segment.saturating_add(1),
        Place::Inline => u64::MAX,
    }
}

/// Changes that leave only `pages` of an extent, which begin or end with it; none if they are
/// empty.
fn cut(view: &dyn Read, map: u64, extent: &Extent, pages: Range<u64>) -> Result<Vec<KvOp>> {
    let last = extent.pages.end - 1;
    let is_inline = extent.place == Place::Inline;
    let mut ops = Vec::new();
    let same_key = !pages.is_empty() && pages.end == extent.pages.end;
    if !same_key {
        ops.push(extents(key::extent(map, last), None));
        if is_inline {
            ops.push(extents(key::inline(map, last), None));
        }
    }
    if pages.is_empty() {
        return Ok(ops);
    }
    let skipped = pages.start - extent.pages.start;
    let place = match extent.place {
        Place::Stored { block, within } => Place::Stored {
            block,
            within: within.saturating_add(skipped as u32),
        },
        other => other,
    };
    let inline_key = key::inline(map, last);
    if let Some(value) = view.get(Table::Extents, &inline_key)?.filter(|_| is_inline)
        && let Ok(inline) = Inline::decode(&inline_key, &value)
    {
        let inline = Inline {
            first: pages.start,
            bytes: part(inline.bytes, skipped as u32, pages.end - pages.start),
            ..inline
        };
        ops.push(extents(
            key::inline(map, pages.end - 1),
            Some(inline.encode()),
        ));
    }
    let key = key::extent(map, pages.end - 1);
    ops.push(extents(key, Some(Extent { pages, place }.encode())));
    Ok(ops)
}

fn extents(key: Box<[u8]>, value: Option<Box<[u8]>>) -> KvOp {
    KvOp {
        table: Table::Extents,
        key,
        value,
    }
}
