//! Idle work on a disk that is full for a while.

use super::*;
use crate::backend::load::each;
use crate::backend::simulated::SimulatedStore;
use crate::disk::simulated::{Fault, SimulatedDisk};
use std::collections::BTreeSet;

const FILES: Range<u64> = 2..8;
const PAGES: u64 = 160;

/// A store whose segments have live blocks, blocks of which little is live, and inline data.
fn half_dead(disk: &SimulatedDisk) -> SimulatedStore {
    SimulatedStore::make(disk, 64).unwrap();
    let store = SimulatedStore::open(disk, eager()).unwrap();
    let mut records = vec![root()];
    for ino in FILES {
        let pages: Vec<_> = (0..PAGES).map(|index| (index, page(ino + index))).collect();
        let extents = store.backend.write_pages(ino, 1, &pages).unwrap();
        records.push(new(ino, attrs(1, Kind::File)));
        records.push(contents(ino, 1, 1, PAGES * 4096, Edit::Write(extents)));
    }
    store.backend.commit(1, records).unwrap();
    let cuts = FILES.map(|ino| contents(ino, 1, 2, PAGES * 4096, Edit::Cut(3..70)));
    store.backend.commit(2, cuts.collect()).unwrap();
    let inline = hearth_backend::Extent {
        pages: 3..4,
        place: hearth_backend::Place::Inline(page(5)),
    };
    let inlines = contents(2, 1, 3, PAGES * 4096, Edit::Write(vec![inline]));
    store.backend.commit(3, vec![inlines]).unwrap();
    store
}

fn named(store: &StoreBackend) -> Vec<u64> {
    let mut named = Vec::new();
    let collected = each(&*store.kv, Table::Meta, key::SEGMENTS, &mut |key, _| {
        named.push(key::number(key)?);
        Ok(true)
    });
    collected.unwrap();
    named
}

fn check_contents(store: &StoreBackend) {
    for ino in FILES {
        let kept = read(store, ino, 0..PAGES);
        let expected = PAGES - 67 + u64::from(ino == 2);
        assert_eq!(kept.len() as u64, expected, "file {ino}");
        let is_right = |(index, bytes): &(u64, Vec<u8>)| **bytes == *page(ino + index);
        assert!(kept.iter().all(is_right), "file {ino}");
    }
}

#[test]
fn idle_work_that_finds_no_room_leaves_no_segment_behind() {
    let first = |disk: &SimulatedDisk| {
        let store = half_dead(disk);
        (disk.counts().steps, store)
    };
    let disk = SimulatedDisk::new(1);
    let (begin, store) = first(&disk);
    tidy_all(&store.backend);
    let end = disk.counts().steps;
    assert_eq!(store.backend.blocks.list().unwrap(), named(&store.backend));
    let mut refused = BTreeSet::new();
    for step in begin..end {
        for length in [1, 2] {
            let disk = SimulatedDisk::new(1);
            let (_, store) = first(&disk);
            (step..step + length).for_each(|step| disk.fail_at(step, Fault::NoSpace));
            tidy_all(&store.backend);
            refused.extend(store.lines());
            let crashed = SimulatedStore::open(&disk.crashed(step), eager()).unwrap();
            check_contents(&crashed.backend);
            tidy_all(&crashed.backend);
            check_contents(&crashed.backend);
            // What more dies brings the collector back.
            for epoch in 4..7 {
                let cut = contents(
                    7,
                    1,
                    epoch,
                    PAGES * 4096,
                    Edit::Cut(0..u64::from(epoch) - 3),
                );
                // Records that found no room come with those of the next call.
                let mut records = vec![cut];
                while (store.backend)
                    .commit(epoch.into(), std::mem::take(&mut records))
                    .is_err()
                {}
                tidy_all(&store.backend);
            }
            let (list, named) = (store.backend.blocks.list().unwrap(), named(&store.backend));
            assert_eq!(list, named, "step {step}, {length} of them");
        }
    }
    assert!(refused.len() > 3, "{refused:?}");
}
