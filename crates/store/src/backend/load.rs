//! Loading.

use super::parts::{Blocks, KeyValues};
use crate::error::{Error, Result};
use crate::kv::{Read, Table};
use crate::schema::{
    self, Block, Contents, Counters, Directory, Extent, Inline, Place, Used, Xattrs, corrupt, key,
    part,
};
use bytes::Bytes;
use hearth_backend::{Allocation, Inode, Kind, Restart, Target, Usage, Xattr};
use std::collections::HashMap;
use std::ops::Range;

const ROOT: u64 = 1;
/// Extents that are read at once.
const BATCH: usize = 256;
/// How often bytes that are not where they were are looked up again.
const TRIES: usize = 16;

/// Whether there is no root, which the first commit makes.
pub(super) fn is_new(kv: &dyn KeyValues) -> Result<bool> {
    Ok(kv.get(Table::Meta, &key::inode(ROOT))?.is_none())
}

/// What an opened volume needs to go on.
pub(super) fn restart(kv: &dyn KeyValues, counters: &Counters) -> Result<Option<Restart>> {
    if is_new(kv)? {
        return Ok(None);
    }
    let mut restart = Restart {
        last_inode: counters.last_inode,
        opened: kv.opened(),
        epoch: counters.epoch,
        ..Restart::default()
    };
    each(kv, Table::Meta, key::USAGE, &mut |key, value| {
        let (owner, used) = (key::owner(key)?, Used::decode(key, value)?);
        restart.usage.push(Usage {
            uid: owner.uid,
            gid: owner.gid,
            project: owner.project,
            blocks: used.blocks,
            inodes: used.inodes,
        });
        Ok(true)
    })?;
    each(kv, Table::Meta, key::SETTINGS, &mut |key, value| {
        let name = key[key::SETTINGS.len()..].into();
        restart.settings.push((name, value.into()));
        Ok(true)
    })?;
    each(kv, Table::Meta, key::ORPHANS, &mut |key, value| {
        let generation = <[u8; 4]>::try_from(value);
        let generation = generation.map_err(|_| corrupt(key, "a value of another length"))?;
        let ino = key::number(key)?;
        restart.orphans.push((ino, u32::from_le_bytes(generation)));
        Ok(true)
    })?;
    Ok(Some(restart))
}

/// What keys with their values are passed to.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool> + 'a;

/// Passes all keys with `prefix` to `visit` until it returns false or fails.
pub(super) fn each(
    view: &(impl Read + ?Sized),
    table: Table,
    prefix: &[u8],
    visit: &mut Visit<'_>,
) -> Result<()> {
    let to = key::behind(prefix);
    between(view, table, prefix, to.as_deref(), visit)
}

/// Passes keys from `from` on and before `to` to `visit` until it returns false or fails.
pub(super) fn between(
    view: &(impl Read + ?Sized),
    table: Table,
    from: &[u8],
    to: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let mut result = Ok(());
    view.scan(table, from, to, &mut |key, value| {
        let more = visit(key, value);
        more.unwrap_or_else(|error| {
            result = Err(error);
            false
        })
    })?;
    result
}

/// The inode with this number.
pub(super) fn inode(kv: &dyn KeyValues, ino: u64) -> Result<Option<Inode>> {
    let Some(value) = kv.get(Table::Meta, &key::inode(ino))? else {
        return Ok(None);
    };
    let inode = schema::Inode::decode(ino, &value)?;
    let (mut own, mut directory) = (Contents::default(), Directory::default());
    if inode.attrs.kind == Kind::Directory {
        if let Some(value) = kv.get(Table::Meta, &key::directory(ino))? {
            directory = Directory::decode(ino, &value)?;
        }
    } else {
        own = contents(kv, ino)?;
    }
    let xattrs = match kv.get(Table::Meta, &key::xattrs(ino))? {
        Some(value) => Xattrs::decode(ino, &value)?,
        None => Vec::new(),
    };
    Ok(Some(whole((ino, inode), own, directory, xattrs)))
}

/// An inode of its parts.
pub(super) fn whole(
    (ino, inode): (u64, schema::Inode),
    own: Contents,
    directory: Directory,
    xattrs: Vec<Xattr>,
) -> Inode {
    Inode {
        ino,
        attrs: inode.attrs,
        size: own.size,
        pages: own.pages,
        touched: own.touched.max(directory.touched),
        entries: (directory.entries, directory.subdirectories),
        parent: directory.parent,
        target: inode.target,
        xattrs,
    }
}

/// The contents of `ino`.
pub(super) fn contents(view: &(impl Read + ?Sized), ino: u64) -> Result<Contents> {
    match view.get(Table::Meta, &key::contents(ino))? {
        Some(value) => Contents::decode(ino, &value),
        None => Ok(Contents::default()),
    }
}

/// The target of an entry.
pub(super) fn entry(kv: &dyn KeyValues, dir: u64, name: &[u8]) -> Result<Option<Target>> {
    let key = key::name(dir, name);
    let value = kv.get(Table::Meta, &key)?;
    value
        .map(|value| schema::decode_target(&key, &value))
        .transpose()
}

/// All entries of a directory.
pub(super) fn directory(kv: &dyn KeyValues, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>> {
    let prefix = key::names(dir);
    let mut entries = Vec::new();
    each(kv, Table::Meta, &prefix, &mut |key, value| {
        let name = key[prefix.len()..].into();
        entries.push((name, schema::decode_target(key, value)?));
        Ok(true)
    })?;
    Ok(entries)
}

/// The ranges of allocated pages, and whether each was written.
pub(super) fn allocation(kv: &dyn KeyValues, ino: u64, pages: &Range<u64>) -> Result<Allocation> {
    loop {
        let map = contents(kv, ino)?.map;
        let mut ranges = Allocation::new();
        let (from, to) = (key::extent(map, pages.start), key::extent(map + 1, 0));
        between(kv, Table::Extents, &from, Some(&to), &mut |key, value| {
            let mut extent = Extent::decode(key, value)?;
            let is_inside = extent.pages.start < pages.end;
            if is_inside {
                let held = &mut extent.pages;
                *held = held.start.max(pages.start)..held.end.min(pages.end);
                add_allocated(&mut ranges, extent);
            }
            Ok(is_inside)
        })?;
        // A commit may have given the file another map between the two looks, or its first.
        if contents(kv, ino)?.map == map {
            return Ok(ranges);
        }
    }
}

/// Adds the next extent.
pub(super) fn add_allocated(ranges: &mut Allocation, extent: Extent) {
    let is_written = extent.place != Place::Unwritten;
    match ranges.last_mut() {
        Some((range, is)) if range.end == extent.pages.start && *is == is_written => {
            range.end = extent.pages.end;
        }
        _ => ranges.push((extent.pages, is_written)),
    }
}

/// Passes the written pages of a range to `take`, by rising index.
pub(super) fn pages(
    kv: &dyn KeyValues,
    blocks: &dyn Blocks,
    ino: u64,
    mut range: Range<u64>,
    take: &mut dyn FnMut(u64, &[u8]),
) -> Result<()> {
    let (mut before, mut tries) = (None, 0);
    while !range.is_empty() {
        let generation = match kv.get(Table::Meta, &key::inode(ino))? {
            Some(value) => schema::Inode::decode(ino, &value)?.attrs.generation,
            None => 0,
        };
        let map = contents(kv, ino)?.map;
        let (extents, next) = extents(kv, map, &range, BATCH)?;
        let mut passed = range.start;
        let mut take = |index: u64, bytes: &[u8]| {
            passed = index + 1;
            take(index, bytes);
        };
        let passing = Passing::new(kv, map, &extents, range.clone(), &mut take);
        match passing.run(blocks, (ino, generation)) {
            Ok(()) => (range.start, before, tries) = (next.unwrap_or(range.end), None, 0),
            // The bytes moved between the two looks; or they are damaged, if the extents have not.
            Err(error) if before.as_ref() == Some(&extents) => return Err(error),
            Err(_) if tries < TRIES => {
                (range.start, before, tries) = (passed, Some(extents), tries + 1);
            }
            Err(_) => {
                return Err(Error::Corrupt {
                    file: "engine".into(),
                    offset: 0,
                    what: format!("extents of inode {ino} change all the time"),
                });
            }
        }
    }
    Ok(())
}

/// At most `limit` extents of `map` that meet `range`; where the rest begins.
pub(super) fn extents(
    view: &(impl Read + ?Sized),
    map: u64,
    range: &Range<u64>,
    limit: usize,
) -> Result<(Vec<Extent>, Option<u64>)> {
    let (from, to) = (key::extent(map, range.start), key::extent(map + 1, 0));
    let mut extents: Vec<Extent> = Vec::new();
    let mut next = None;
    between(view, Table::Extents, &from, Some(&to), &mut |key, value| {
        let extent = Extent::decode(key, value)?;
        if extent.pages.start >= range.end {
            return Ok(false);
        }
        if extents.len() == limit {
            next = Some(extent.pages.start);
            return Ok(false);
        }
        extents.push(extent);
        Ok(true)
    })?;
    Ok((extents, next))
}

/// The extents of a range on their way to who wants their pages, in order. Blocks come one after
/// the other and are let go of when no extent that follows is in them.
struct Passing<'a> {
    kv: &'a dyn KeyValues,
    map: u64,
    extents: &'a [Extent],
    range: Range<u64>,
    take: &'a mut dyn FnMut(u64, &[u8]),
    /// Blocks of the extents, each once.
    wanted: Vec<Block>,
    /// Which of them each extent is in.
    places: Vec<Option<usize>>,
    /// How many extents that follow are in each.
    uses: Vec<usize>,
    /// Blocks that are there, in the order of `wanted`.
    arrived: Vec<Bytes>,
    /// The next extent.
    next: usize,
}

impl<'a> Passing<'a> {
    fn new(
        kv: &'a dyn KeyValues,
        map: u64,
        extents: &'a [Extent],
        range: Range<u64>,
        take: &'a mut dyn FnMut(u64, &[u8]),
    ) -> Passing<'a> {
        let mut found: HashMap<Block, usize> = HashMap::new();
        let (mut wanted, mut uses) = (Vec::new(), Vec::new());
        let mut place = |extent: &Extent| {
            let Place::Stored { block, .. } = extent.place else {
                return None;
            };
            let at = *found.entry(block).or_insert_with(|| {
                wanted.push(block);
                uses.push(0);
                wanted.len() - 1
            });
            uses[at] += 1;
            Some(at)
        };
        let places = extents.iter().map(&mut place).collect();
        Passing {
            kv,
            map,
            extents,
            range,
            take,
            wanted,
            places,
            uses,
            arrived: Vec::new(),
            next: 0,
        }
    }

    /// Passes all of them that can be read, up to the first that cannot.
    fn run(mut self, blocks: &dyn Blocks, (ino, generation): (u64, u32)) -> Result<()> {
        let wanted = std::mem::take(&mut self.wanted);
        let mut result = Ok(());
        if !wanted.is_empty() {
            blocks.read(ino, generation, &wanted, &mut |bytes| {
                self.arrived.push(bytes);
                if result.is_ok() {
                    result = self.pass();
                }
            })?;
        }
        result?;
        self.pass()
    }

    /// Passes what is there.
    fn pass(&mut self) -> Result<()> {
        while let Some(extent) = self.extents.get(self.next) {
            match (&extent.place, self.places[self.next]) {
                (Place::Stored { within, .. }, Some(at)) => {
                    let Some(bytes) = self.arrived.get(at).cloned() else {
                        return Ok(());
                    };
                    self.uses[at] -= 1;
                    if self.uses[at] == 0 {
                        self.arrived[at] = Bytes::new();
                    }
                    self.pass_pages(extent, &bytes, *within);
                }
                (Place::Inline, _) => self.pass_inline(extent)?,
                _ => {}
            }
            self.next += 1;
        }
        Ok(())
    }

    fn pass_inline(&mut self, extent: &Extent) -> Result<()> {
        let key = key::inline(self.map, extent.pages.end - 1);
        let value = self.kv.get(Table::Extents, &key)?;
        let value = value.ok_or_else(|| corrupt(&key, "inline bytes are missing"))?;
        let inline = Inline::decode(&key, &value)?;
        if inline.first != extent.pages.start {
            return Err(corrupt(&key, "inline bytes of another extent"));
        }
        self.pass_pages(extent, inline.bytes, 0);
        Ok(())
    }

    fn pass_pages(&mut self, extent: &Extent, bytes: &[u8], within: u32) {
        let pages = extent.pages.clone();
        for index in pages.start.max(self.range.start)..pages.end.min(self.range.end) {
            let first = within.saturating_add((index - pages.start) as u32);
            (self.take)(index, part(bytes, first, 1));
        }
    }
}

/// The bytes of one block that was written for `file`, inode and generation.
pub(super) fn read_one(blocks: &dyn Blocks, file: (u64, u32), block: Block) -> Result<Bytes> {
    let mut read = Bytes::new();
    blocks.read(file.0, file.1, &[block], &mut |bytes| read = bytes)?;
    Ok(read)
}
