use super::*;
use crate::backend::memory::MemoryKv;
use crate::schema::Random;
use hearth_backend::{Attrs, Edit, Extent, Inode, Kind, Place, Target};
use std::collections::{BTreeMap, BTreeSet};

fn attrs(nlink: u32) -> Attrs {
    Attrs {
        nlink,
        ..Attrs::new(1, Kind::File, 0o644)
    }
}

fn new(ino: u64) -> Record {
    // Versions go round behind it.
    Record::New {
        inode: Box::new(Inode {
            ino,
            attrs: attrs(1),
            size: 0,
            pages: 0,
            touched: 0,
            entries: (0, 0),
            parent: 0,
            target: Box::default(),
            xattrs: Vec::new(),
        }),
        version: u32::MAX - 2,
    }
}

fn contents(ino: u64, version: u32, edit: Edit) -> Record {
    Record::Contents {
        ino,
        generation: 1,
        version,
        order: version.into(),
        size: u64::from(version),
        touched: u64::from(version),
        edit,
    }
}

fn inline(pages: std::ops::Range<u64>, byte: u8) -> Edit {
    let bytes = vec![byte; (pages.end - pages.start) as usize * 4096 - 7];
    let place = Place::Inline(bytes.into());
    Edit::Write(vec![Extent { pages, place }])
}

fn name(version: u32, ino: u64) -> Record {
    Record::Name {
        dir: 1,
        generation: 1,
        name: b"name"[..].into(),
        version,
        to: Some(Target {
            ino,
            generation: 1,
            kind: Kind::File,
        }),
        came: false,
    }
}

fn setting(version: u32, value: u8) -> Record {
    Record::Setting {
        key: b"key"[..].into(),
        version,
        value: Some([value].into()),
    }
}

type ByKey = BTreeMap<(Table, Box<[u8]>), Option<Box<[u8]>>>;

fn sorted(ops: &[KvOp]) -> ByKey {
    let keys = ops.iter().map(|op| (op.table, op.key.clone()));
    let unique: BTreeSet<_> = keys.clone().collect();
    assert_eq!(unique.len(), keys.count(), "each key once");
    let ops = ops.iter();
    ops.map(|op| ((op.table, op.key.clone()), op.value.clone()))
        .collect()
}

#[test]
fn the_order_in_which_records_come_means_nothing() {
    let kv = MemoryKv::new();
    let mut records = vec![
        new(2),
        new(3),
        contents(2, u32::MAX - 1, inline(0..16, 1)),
        contents(2, u32::MAX, inline(4..6, 2)),
        contents(2, 0, Edit::Cut(1..3)),
        contents(2, 1, Edit::Shift { from: 5, by: 3 }),
        contents(2, 2, inline(0..1, 3)),
        Record::Attrs {
            ino: 2,
            version: 0,
            attrs: attrs(5),
        },
        Record::Attrs {
            ino: 2,
            version: u32::MAX,
            attrs: attrs(0),
        },
        name(u32::MAX, 3),
        name(0, 2),
        setting(1, 1),
        setting(2, 2),
    ];
    let mut random = Random(99);
    let mut first = None;
    for _ in 0..200 {
        for at in (1..records.len()).rev() {
            records.swap(at, random.below(at as u64 + 1) as usize);
        }
        let mut counters = Counters::default();
        let merged = merge(&kv, &mut counters, &records).unwrap();
        assert_eq!(merged.strays, 0);
        let ops = (sorted(&merged.ops), counters);
        assert_eq!(first.get_or_insert_with(|| ops.clone()), &ops);
    }
}

#[test]
fn merging_what_was_applied_already_gives_the_same_names_and_settings() {
    let kv = MemoryKv::new();
    let records = [name(1, 3), setting(1, 1)];
    let merged = merge(&kv, &mut Counters::default(), &records).unwrap();
    crate::backend::KeyValues::commit(&kv, 1, &merged.ops).unwrap();
    let again = merge(&kv, &mut Counters::default(), &records).unwrap();
    assert_eq!(again.ops, merged.ops);
}

#[test]
fn a_stored_place_that_is_none_is_an_error() {
    let place = Place::Stored(vec![7; 10].into());
    let edit = Edit::Write(vec![Extent { pages: 0..1, place }]);
    let records = [new(2), contents(2, 1, edit)];
    let error = merge(&MemoryKv::new(), &mut Counters::default(), &records);
    assert!(matches!(error, Err(crate::Error::Corrupt { .. })));
}
