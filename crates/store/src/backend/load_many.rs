//! Loading many inodes at once: a scan of each kind of key, where one by one they take four reads
//! each.

use super::load::{add_allocated, between, whole};
use super::parts::KeyValues;
use crate::error::Result;
use crate::kv::Table;
use crate::schema::{self, Contents, Directory, Extent, Xattrs, key};
use hearth_backend::{Allocation, Inode, Kind};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages of a file that comes along, at most: those of larger ones have many extents.
pub(super) const PAGES_MOST: u64 = 256;

/// Inodes with numbers in `range`, but for large files.
pub(super) fn inodes(kv: &dyn KeyValues, range: Range<u64>) -> Result<Vec<(Inode, Allocation)>> {
    let inodes = of_numbers(kv, key::inode, &range, schema::Inode::decode)?;
    let contents = of_numbers(kv, key::contents, &range, Contents::decode)?;
    let has_directory = (inodes.values()).any(|inode| inode.attrs.kind == Kind::Directory);
    let mut directories = match has_directory {
        true => of_numbers(kv, key::directory, &range, Directory::decode)?,
        false => BTreeMap::new(),
    };
    let mut xattrs = of_numbers(kv, key::xattrs, &range, Xattrs::decode)?;
    let mut allocations = allocations(kv, contents.values())?;
    let whole = |(ino, inode)| {
        let own = contents.get(&ino).copied().unwrap_or_default();
        let allocation = allocations.remove(&own.map).unwrap_or_default();
        let held: u64 = allocation.iter().map(|(r, _)| r.end - r.start).sum();
        // Not that of a large file, nor what was changed between two scans.
        (held == own.pages).then(|| {
            let directory = directories.remove(&ino).unwrap_or_default();
            let xattrs = xattrs.remove(&ino).unwrap_or_default();
            (whole((ino, inode), own, directory, xattrs), allocation)
        })
    };
    Ok(inodes.into_iter().filter_map(whole).collect())
}

/// The values of a kind of key, by number.
fn of_numbers<T>(
    kv: &dyn KeyValues,
    key: impl Fn(u64) -> Box<[u8]>,
    range: &Range<u64>,
    decode: impl Fn(u64, &[u8]) -> Result<T>,
) -> Result<BTreeMap<u64, T>> {
    let mut found = BTreeMap::new();
    let (from, to) = (key(range.start), key(range.end));
    between(kv, Table::Meta, &from, Some(&to), &mut |key, value| {
        let number = key::number(key)?;
        found.insert(number, decode(number, value)?);
        Ok(true)
    })?;
    Ok(found)
}

/// The allocated pages of maps of small files, by map. Files that were written together have maps
/// one behind the other: these are scanned at once.
fn allocations<'c>(
    kv: &dyn KeyValues,
    contents: impl Iterator<Item = &'c Contents>,
) -> Result<BTreeMap<u64, Allocation>> {
    let small = contents.filter(|own| own.map != 0 && own.pages <= PAGES_MOST);
    let mut maps: Vec<u64> = small.map(|own| own.map).collect();
    maps.sort_unstable();
    let mut found: BTreeMap<u64, Allocation> = BTreeMap::new();
    for run in maps.chunk_by(|a, b| a + 1 == *b) {
        let (first, behind) = (run[0], run[run.len() - 1] + 1);
        let (from, to) = (key::extent(first, 0), key::extent(behind, 0));
        between(kv, Table::Extents, &from, Some(&to), &mut |key, value| {
            let (map, _) = key::page(key)?;
            add_allocated(found.entry(map).or_default(), Extent::decode(key, value)?);
            Ok(true)
        })?;
    }
    Ok(found)
}
