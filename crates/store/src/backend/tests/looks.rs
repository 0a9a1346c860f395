//! Looks beside a writer, as dumps and checks have them.

use super::*;
use crate::backend::simulated::SimulatedStore;
use crate::disk::Disk;
use crate::disk::real::RealDisk;
use crate::disk::simulated::SimulatedDisk;

const PAGES: u64 = 40;

/// Gives a file pages that follow from `seed`.
fn write(store: &SimulatedStore, epoch: u64, seed: u64) {
    let pages: Vec<_> = (0..PAGES)
        .map(|index| (index, page(seed + index)))
        .collect();
    let extents = store.backend.write_pages(2, 1, &pages).unwrap();
    let mut records = vec![contents(
        2,
        1,
        epoch as u32,
        PAGES * 4096,
        Edit::Write(extents),
    )];
    if epoch == 1 {
        records.extend([root(), new(2, attrs(1, Kind::File))]);
    }
    store.backend.commit(epoch, records).unwrap();
}

/// A store with a file, and a look at it; then the file is written again and the store idle.
fn looked_at(disk: &SimulatedDisk) -> (SimulatedStore, SimulatedStore) {
    SimulatedStore::make(disk, 64).unwrap();
    let store = SimulatedStore::open(disk, eager()).unwrap();
    write(&store, 1, 100);
    let look = SimulatedStore::look(disk).unwrap();
    write(&store, 2, 500);
    tidy_all(&store.backend);
    (store, look)
}

/// Once, a dump failed where the volume was in use, and named a segment as missing.
#[test]
fn what_a_dump_reads_stays_until_it_ends_although_it_died_meanwhile() {
    let disk = SimulatedDisk::new(1);
    let (store, look) = looked_at(&disk);
    let found = read(&look.backend, 2, 0..PAGES);
    assert_eq!(found.len() as u64, PAGES);
    assert!(
        found
            .iter()
            .all(|(index, bytes)| **bytes == *page(100 + index))
    );
    // Nor does an opening remove it that finds it left behind.
    store.kv.close().unwrap();
    let store = SimulatedStore::open(&disk, eager()).unwrap();
    tidy_all(&store.backend);
    assert_eq!(read(&look.backend, 2, 0..PAGES), found);
    drop(look);
    tidy_all(&store.backend);
    assert_eq!(store.backend.blocks.list().unwrap().len(), 1);
}

#[test]
fn where_room_is_low_a_dump_keeps_nothing_that_is_dead() {
    let disk = SimulatedDisk::new(1);
    disk.set_free(1 << 31);
    let (store, _look) = looked_at(&disk);
    assert_eq!(store.backend.blocks.list().unwrap().len(), 1);
}

#[test]
fn a_folder_is_shared_until_the_last_reader_ends() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("segments")).unwrap();
    let disk = RealDisk::new(dir.path());
    assert!(!disk.is_shared("segments"));
    let (one, other) = (disk.share("segments"), disk.share("segments"));
    assert!(one.is_some() && other.is_some());
    drop(one);
    assert!(disk.is_shared("segments"));
    drop(other);
    assert!(!disk.is_shared("segments"));
    assert!(disk.share("gone").is_none());
    assert!(!disk.is_shared("gone"));
}
