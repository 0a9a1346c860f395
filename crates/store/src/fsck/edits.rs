//! Changes of extents that put a map right.

use crate::error::Result;
use crate::kv::{KvOp, Read, Table};
use crate::schema::{Extent, Inline, Place, key, part};
use std::ops::Range;

/// The segment that is named where it is not known which one it was. It never exists.
pub const LOST: u64 = u64::MAX;

/// Changes that copy the extents of a map under another one, for a file.
pub fn copied(view: &dyn Read, map: u64, to: u64, file: (u64, u32)) -> Result<Vec<KvOp>> {
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

/// What is newer has the larger number.
pub fn age(extent: &Extent) -> u64 {
    match &extent.place {
        Place::Unwritten => 0,
        Place::Stored { block, .. } if block.segment == LOST => 0,
        Place::Stored { block, .. } => block.segment.saturating_add(1),
        Place::Inline => u64::MAX,
    }
}

/// Changes that leave only `pages` of an extent, which begin or end with it; none if they are
/// empty.
pub fn cut(view: &dyn Read, map: u64, extent: &Extent, pages: Range<u64>) -> Result<Vec<KvOp>> {
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

/// A change of a key of `extents`.
pub fn extents(key: Box<[u8]>, value: Option<Box<[u8]>>) -> KvOp {
    KvOp {
        table: Table::Extents,
        key,
        value,
    }
}

/// A change that gives a key of `meta` a value.
pub fn put(key: &[u8], value: Box<[u8]>) -> KvOp {
    KvOp {
        table: Table::Meta,
        key: key.into(),
        value: Some(value),
    }
}

/// A change that removes a key.
pub fn remove(table: Table, key: &[u8]) -> KvOp {
    KvOp {
        table,
        key: key.into(),
        value: None,
    }
}
