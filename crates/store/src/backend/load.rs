//! Loading.

use super::parts::{Blocks, KeyValues};
use crate::error::{Error, Result};
use crate::kv::{Read, Table};
use crate::schema::{
    self, Block, Contents, Counters, Directory, Extent, Inline, Place, Used, Xattrs, corrupt, key,
    part,
};
use bytes::Bytes;
use hearth_backend::{Inode, Kind, Restart, Target, Usage};
use std::collections::HashMap;
use std::ops::Range;

const ROOT: u64 = 1;
/// Extents that are read at once, and the bytes of their blocks.
const BATCH: usize = 256;
const BATCH_BYTES: u64 = 4 << 20;
/// How often bytes that are not where they were are looked up again.
const TRIES: usize = 16;

/// What an opened volume needs to go on.
pub(super) fn restart(kv: &dyn KeyValues, counters: &Counters) -> Result<Option<Restart>> {
    if kv.get(Table::Meta, &key::inode(ROOT))?.is_none() {
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
    let schema::Inode { attrs, target } = schema::Inode::decode(ino, &value)?;
    let (mut own, mut directory) = (Contents::default(), Directory::default());
    if attrs.kind == Kind::Directory {
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
    Ok(Some(Inode {
        ino,
        attrs,
        size: own.size,
        pages: own.pages,
        touched: own.touched.max(directory.touched),
        entries: (directory.entries, directory.subdirectories),
        parent: directory.parent,
        target,
        xattrs,
    }))
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
pub(super) fn allocation(kv: &dyn KeyValues, ino: u64) -> Result<Vec<(Range<u64>, bool)>> {
    let map = contents(kv, ino)?.map;
    let mut ranges: Vec<(Range<u64>, bool)> = Vec::new();
    let (from, to) = (key::extent(map, 0), key::extent(map + 1, 0));
    between(kv, Table::Extents, &from, Some(&to), &mut |key, value| {
        let extent = Extent::decode(key, value)?;
        let is_written = extent.place != Place::Unwritten;
        match ranges.last_mut() {
            Some((range, is)) if range.end == extent.pages.start && *is == is_written => {
                range.end = extent.pages.end;
            }
            _ => ranges.push((extent.pages, is_written)),
        }
        Ok(true)
    })?;
    Ok(ranges)
}

/// Passes the written pages of a range to `take`.
pub(super) fn pages(
    kv: &dyn KeyValues,
    blocks: &dyn Blocks,
    ino: u64,
    mut range: Range<u64>,
    take: &mut dyn FnMut(u64, &[u8]),
) -> Result<()> {
    while !range.is_empty() {
        let batch = batch(kv, blocks, ino, &range)?;
        for (extent, bytes) in &batch.extents {
            let wanted = extent.start.max(range.start)..extent.end.min(range.end);
            for index in wanted {
                let first = bytes.within.saturating_add((index - extent.start) as u32);
                take(index, part(&batch.bytes[bytes.from], first, 1));
            }
        }
        match batch.next {
            Some(next) => range.start = next,
            None => break,
        }
    }
    Ok(())
}

/// Extents of a range with their bytes.
struct LoadedExtents {
    extents: Vec<(Range<u64>, At)>,
    bytes: Vec<Bytes>,
    /// The first page that is not in it.
    next: Option<u64>,
}

/// Which bytes of a batch, and from which page of them on.
struct At {
    from: usize,
    within: u32,
}

/// The first extents of a range with their bytes.
fn batch(
    kv: &dyn KeyValues,
    blocks: &dyn Blocks,
    ino: u64,
    range: &Range<u64>,
) -> Result<LoadedExtents> {
    let mut before = None;
    for _ in 0..TRIES {
        let generation = match kv.get(Table::Meta, &key::inode(ino))? {
            Some(value) => schema::Inode::decode(ino, &value)?.attrs.generation,
            None => 0,
        };
        let map = contents(kv, ino)?.map;
        let (mut extents, mut next) = extents(kv, map, range, BATCH)?;
        if let Some(from) = beyond(&extents, BATCH_BYTES) {
            next = Some(extents[from].pages.start);
            extents.truncate(from);
        }
        let found = read(kv, blocks, (ino, generation, map), &extents);
        match found {
            Ok((extents, bytes)) => {
                return Ok(LoadedExtents {
                    extents,
                    bytes,
                    next,
                });
            }
            // The bytes moved between the two looks; or they are damaged, if the extents have not.
            Err(error) if before.as_ref() == Some(&extents) => return Err(error),
            Err(_) => before = Some(extents),
        }
    }
    Err(Error::Corrupt {
        file: "engine".into(),
        offset: 0,
        what: format!("extents of inode {ino} change all the time"),
    })
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

/// The first of these extents whose block has no place in `most` bytes with those before; not the
/// first of all.
fn beyond(extents: &[Extent], most: u64) -> Option<usize> {
    let (mut bytes, mut last) = (0, None);
    let is_beyond = |extent: &Extent| {
        if let Place::Stored { block, .. } = &extent.place
            && last.replace(*block) != Some(*block)
        {
            bytes += u64::from(block.length);
        }
        bytes > most
    };
    extents.iter().position(is_beyond).filter(|at| *at > 0)
}

type Loaded = (Vec<(Range<u64>, At)>, Vec<Bytes>);

/// The bytes of extents; unwritten ones have none.
fn read(
    kv: &dyn KeyValues,
    blocks: &dyn Blocks,
    (ino, generation, map): (u64, u32, u64),
    extents: &[Extent],
) -> Result<Loaded> {
    let mut wanted: Vec<Block> = Vec::new();
    let mut places: HashMap<Block, usize> = HashMap::new();
    let mut found = Vec::with_capacity(extents.len());
    let mut inline = Vec::new();
    for extent in extents {
        match &extent.place {
            Place::Unwritten => {}
            Place::Inline => {
                inline.push((found.len(), extent.pages.end - 1));
                found.push((extent.pages.clone(), At { from: 0, within: 0 }));
            }
            Place::Stored { block, within } => {
                let from = *places.entry(*block).or_insert_with(|| {
                    wanted.push(*block);
                    wanted.len() - 1
                });
                let bytes = At {
                    from,
                    within: *within,
                };
                found.push((extent.pages.clone(), bytes));
            }
        }
    }
    let mut bytes = match wanted[..] {
        [] => Vec::new(),
        _ => blocks.read(ino, generation, &wanted)?,
    };
    for (at, last) in inline {
        let key = key::inline(map, last);
        let value = kv.get(Table::Extents, &key)?;
        let value = value.ok_or_else(|| corrupt(&key, "inline bytes are missing"))?;
        let inline = Inline::decode(&key, &value)?;
        if inline.first != found[at].0.start {
            return Err(corrupt(&key, "inline bytes of another extent"));
        }
        found[at].1.from = bytes.len();
        bytes.push(Bytes::copy_from_slice(inline.bytes));
    }
    Ok((found, bytes))
}
