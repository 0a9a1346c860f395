//! What must hold of all keys together.

use super::*;
use crate::backend::load::each;
use crate::schema::{Contents, Inline, Owner, Place, Segment, Used, key, unwritten_pages};
use std::collections::{BTreeMap, BTreeSet};

/// Panics unless sums, maps and inline data fit each other.
pub fn audit(kv: &dyn KeyValues) {
    let mut maps = BTreeMap::new();
    let mut used: BTreeMap<Owner, Used> = BTreeMap::new();
    each(kv, Table::Meta, key::INODES, &mut |key, value| {
        let ino = key::number(key)?;
        let attrs = crate::schema::Inode::decode(ino, value)?.attrs;
        let contents = match kv.get(Table::Meta, &key::contents(ino))? {
            Some(value) => Contents::decode(ino, &value)?,
            None => Contents::default(),
        };
        if contents.map != 0 {
            assert!(maps.insert(contents.map, contents.pages).is_none());
        }
        let owner = Owner {
            uid: attrs.uid,
            gid: attrs.gid,
            project: attrs.project,
        };
        let sum = used.entry(owner).or_default();
        sum.blocks += contents.pages + u64::from(attrs.extra_blocks);
        sum.inodes += 1;
        Ok(true)
    })
    .unwrap();
    let mut stored = BTreeMap::new();
    each(kv, Table::Meta, key::USAGE, &mut |key, value| {
        stored.insert(key::owner(key)?, Used::decode(key, value)?);
        Ok(true)
    })
    .unwrap();
    assert_eq!(stored, used, "usage is the sum over all inodes");
    let mut dying = BTreeSet::new();
    each(kv, Table::Meta, key::DYING, &mut |key, _| {
        dying.insert(key::number(key)?);
        Ok(true)
    })
    .unwrap();
    extents(kv, maps, &dying);
}

fn extents(kv: &dyn KeyValues, mut maps: BTreeMap<u64, u64>, dying: &BTreeSet<u64>) {
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let mut inline = BTreeMap::new();
    let mut end_before = (0, 0);
    let mut unwritten = 0;
    each(kv, Table::Extents, key::EXTENTS, &mut |key, value| {
        let (map, last) = key::page(key)?;
        let extent = crate::schema::Extent::decode(key, value)?;
        let count = extent.pages.end - extent.pages.start;
        assert!(
            end_before.0 < map || end_before.1 <= extent.pages.start,
            "no overlap"
        );
        end_before = (map, extent.pages.end);
        match maps.get_mut(&map) {
            Some(left) => *left -= count,
            None => assert!(dying.contains(&map), "map {map} belongs to nobody"),
        }
        match extent.place {
            Place::Unwritten => unwritten += count,
            Place::Inline => {
                inline.insert((map, last), extent.pages.start);
            }
            Place::Stored { block, within } => {
                assert!((u64::from(within) + count) * PAGE as u64 <= u64::from(block.length));
                *live.entry(block.segment).or_default() += count;
            }
        }
        Ok(true)
    })
    .unwrap();
    assert!(
        maps.values().all(|left| *left == 0),
        "pages are those of the extents"
    );
    assert_eq!(
        unwritten_pages(kv).unwrap(),
        unwritten,
        "what was allocated"
    );
    let mut bytes = BTreeMap::new();
    each(kv, Table::Extents, key::INLINES, &mut |key, value| {
        bytes.insert(key::page(key)?, Inline::decode(key, value)?.first);
        Ok(true)
    })
    .unwrap();
    assert_eq!(bytes, inline, "inline extents and inline bytes");
    each(kv, Table::Meta, key::SEGMENTS, &mut |key, value| {
        let (number, segment) = (key::number(key)?, Segment::decode(key, value)?);
        assert_eq!(
            segment.live,
            live.remove(&number).unwrap_or(0),
            "segment {number}"
        );
        assert!(segment.live <= segment.named);
        Ok(true)
    })
    .unwrap();
    assert_eq!(live.len(), 0, "each segment in use has a key");
}
