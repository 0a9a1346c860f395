//! What the disk cannot read is found as what is damaged.

use super::*;
use crate::backend::Limits;
use crate::backend::simulated::SimulatedStore;
use crate::disk::simulated::SimulatedDisk;
use crate::error::Error;

/// A store of one file with three pages in a segment. Returns the name of that.
fn store() -> (SimulatedDisk, String) {
    let disk = SimulatedDisk::new(1);
    SimulatedStore::make(&disk, 64).expect("a volume");
    let store = SimulatedStore::open(&disk, Limits::default()).expect("a store");
    let pages: Vec<_> = (0..3)
        .map(|page| (page, vec![page as u8 + 1; PAGE].into()))
        .collect();
    let extents = store.backend.write_pages(STORED, GENERATION, &pages);
    let mut records = made(ROOT, attrs(Kind::Directory), &[]);
    records.extend(made(STORED, attrs(Kind::File), &[(ROOT, "stored")]));
    records.push(contents(STORED, 3 * PAGE as u64, extents.expect("a write")));
    store.backend.commit(1, records).expect("a commit");
    store.kv.checkpoint().expect("a checkpoint");
    drop(store);
    let names = disk.contents();
    let is_segment = |name: &&String| name.starts_with("segments/") && name.len() > 20;
    let name = names.keys().find(is_segment).expect("a segment");
    (disk.crashed(0), name.clone())
}

/// Once, such an error was the end of a check.
#[test]
fn bytes_of_a_segment_that_cannot_be_read_are_found() {
    let (disk, segment) = store();
    let check = || SimulatedStore::check(&disk).expect("a check");
    assert!(check().is_clean(), "{:?}", check().findings);
    disk.make_unreadable(&segment, 0..512);
    assert_eq!(names(&check()), BTreeSet::from(["F054", "F055"]));
}

/// A table that ends with an error of the disk.
struct Unreadable(Arc<MemoryKv>, Table);

impl Read for Unreadable {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match table == self.1 && !matches!(key.first(), Some(b'C' | b'I')) {
            true => Err(error()),
            false => self.0.get(table, key),
        }
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        match table == self.1 {
            true => Err(error()),
            false => self.0.scan(table, from, to, visit),
        }
    }
}

fn error() -> Error {
    Error::Io {
        op: "read",
        path: "engine".into(),
        errno: hearth_backend::Errno::EIO,
    }
}

#[test]
fn tables_that_cannot_be_read_are_found() {
    for (table, is_repaired) in [(Table::Meta, false), (Table::Extents, true)] {
        let volume = Volume::new();
        let view = Unreadable(volume.kv.clone(), table);
        let report = check(&view, &volume.data, Options::default(), &mut |_| {});
        let report = report.unwrap_or_else(|error| panic!("{table:?}: {error}"));
        assert!(names(&report).contains("F003"), "{:?}", report.findings);
        assert_eq!(report.is_repairable(), is_repaired);
    }
}

/// Not what is wrong with the volume, but with the asking.
#[test]
fn other_errors_end_a_check() {
    struct Closed;
    impl Read for Closed {
        fn get(&self, _: Table, _: &[u8]) -> Result<Option<Vec<u8>>> {
            Err(Error::Closed)
        }
        fn scan(
            &self,
            _: Table,
            _: &[u8],
            _: Option<&[u8]>,
            _: &mut dyn FnMut(&[u8], &[u8]) -> bool,
        ) -> Result<()> {
            Err(Error::Closed)
        }
    }
    let data = Planted::default();
    let error = check(&Closed, &data, Options::default(), &mut |_| {}).err();
    assert_eq!(error, Some(Error::Closed));
}
