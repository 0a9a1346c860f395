//! Small segments, which idle work puts together.

use super::*;
use crate::backend::simulated::SimulatedStore;
use crate::disk::simulated::SimulatedDisk;

/// Once, a volume with little memory moved its small segments into others that were small too, and
/// those again, without an end.
#[test]
fn small_segments_are_moved_once_however_little_is_moved_at_once() {
    let disk = SimulatedDisk::new(1);
    SimulatedStore::make(&disk, 64).unwrap();
    let limits = Limits {
        piece: 64 * PAGE as u64,
        ..eager()
    };
    let store = SimulatedStore::open(&disk, limits).unwrap();
    let mut records = vec![root()];
    let files = 2..22;
    for ino in files.clone() {
        let pages: Vec<_> = (0..20).map(|index| (index, page(ino + index))).collect();
        let extents = store.backend.write_pages(ino, 1, &pages).unwrap();
        records.push(new(ino, attrs(1, Kind::File)));
        records.push(contents(ino, 1, 1, 20 * 4096, Edit::Write(extents)));
    }
    store.backend.commit(1, records).unwrap();
    tidy_all(&store.backend);
    let segments = store.backend.blocks.list().unwrap().len();
    assert!(segments <= 400 / 64, "{segments} segments");
    for ino in files {
        let found = read(&store.backend, ino, 0..20);
        assert!(
            found
                .iter()
                .all(|(index, bytes)| **bytes == *page(ino + index))
        );
        assert_eq!(found.len(), 20);
    }
}
