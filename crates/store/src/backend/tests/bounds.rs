//! Large epochs, large files, and many threads.

use super::audit::audit;
use super::*;
use hearth_sync::primitive::thread;
use hearth_testing::threads::SetOnDrop;

/// A file with `count` extents of one page each.
fn scattered(store: &StoreBackend, ino: u64, count: u64) {
    store
        .commit(1, vec![root(), new(ino, attrs(1, Kind::File))])
        .unwrap();
    let extent = |index: u64| Extent {
        pages: index * 2..index * 2 + 1,
        place: hearth_backend::Place::Unwritten,
    };
    for (number, first) in (0..count).step_by(50_000).enumerate() {
        let extents = (first..count.min(first + 50_000)).map(extent).collect();
        let version = number as u32 + 1;
        let written = contents(ino, 1, version, count * 8192, Edit::Write(extents));
        store.commit(u64::from(version) + 1, vec![written]).unwrap();
    }
}

#[test]
fn three_million_small_records_are_one_commit() {
    let (store, kv, _) = store();
    let mut records = Vec::with_capacity(3_000_000);
    records.push(root());
    for ino in 2..1_000_001 {
        records.push(new(ino, attrs(1, Kind::File)));
        records.push(Record::Name {
            dir: 1,
            generation: 1,
            name: format!("file{ino}").into_bytes().into(),
            version: ino as u32,
            to: Some(Target {
                ino,
                generation: 1,
                kind: Kind::File,
            }),
            came: false,
        });
        records.push(Record::Entries {
            dir: 1,
            generation: 1,
            entries: 1,
            subdirectories: 0,
            touched: ino,
            order: ino,
        });
    }
    let mut counters = Counters::default();
    let merged = crate::merge::merge(&*kv, &mut counters, &records).unwrap();
    assert!(merged.ops.len() < 2_000_010);
    store.commit(1, records).unwrap();
    let root = store.load_inode(1).unwrap().unwrap();
    assert_eq!((root.entries, root.touched), ((999_999, 0), 1_000_000));
    assert_eq!(store.restart().unwrap().unwrap().usage[0].inodes, 1_000_000);
}

#[test]
fn a_file_of_many_extents_ends_at_once_and_is_deleted_in_pieces() {
    let (store, kv, _) = store();
    scattered(&store, 2, 300_000);
    let before = kv.len();
    let epoch = store.counters().epoch + 1;
    let gone = Record::Gone {
        ino: 2,
        generation: 1,
        is_brief: false,
    };
    store.commit(epoch, vec![gone]).unwrap();
    assert!(before - kv.len().min(before) < 20_000);
    assert_eq!(store.restart().unwrap().unwrap().usage[0].blocks, 0);
    audit(&*kv);
    let pieces = tidy_all(&store);
    assert!(pieces > 70, "{pieces} pieces");
    assert!(kv.len() < 10);
    audit(&*kv);
}

#[test]
fn a_file_of_many_extents_is_emptied_at_once() {
    let (store, kv, _) = store();
    scattered(&store, 2, 100_000);
    let before = kv.len();
    let epoch = store.counters().epoch + 1;
    let cut = contents(2, 1, 100, 0, Edit::Cut(0..u64::MAX));
    let bytes = Extent {
        pages: 0..1,
        place: hearth_backend::Place::Inline(page(5)),
    };
    let write = contents(2, 1, 101, 4096, Edit::Write(vec![bytes]));
    store.commit(epoch, vec![write, cut]).unwrap();
    assert!(before - kv.len().min(before) < 20_000);
    assert_eq!(read(&store, 2, 0..u64::MAX).len(), 1);
    tidy_all(&store);
    assert_eq!(store.load_inode(2).unwrap().unwrap().pages, 1);
    assert!(kv.len() < 12);
    audit(&*kv);
}

#[test]
fn loads_beside_commits_see_whole_ones() {
    let (mut store, kv, blocks) = store();
    store.limits = eager();
    store
        .commit(1, vec![root(), new(2, attrs(1, Kind::File))])
        .unwrap();
    let write = |version: u32| {
        // All 48 pages say which commit wrote them.
        let pages: Vec<_> = (0..48)
            .map(|index| (index, page(u64::from(version))))
            .collect();
        let mut extents = store.write_pages(2, 1, &pages).unwrap();
        let stored = extents[1].pages.clone();
        let bytes: Vec<u8> = (0..4)
            .flat_map(|_| page(u64::from(version)).to_vec())
            .collect();
        extents.push(Extent {
            pages: stored.start + 2..stored.start + 6,
            place: hearth_backend::Place::Inline(bytes.into()),
        });
        let written = contents(2, 1, version, 48 * 4096, Edit::Write(extents));
        store.commit(u64::from(version) + 1, vec![written]).unwrap();
    };
    write(1);
    let done = hearth_sync::primitive::atomic::AtomicBool::new(false);
    let relaxed = hearth_sync::primitive::atomic::Ordering::Relaxed;
    thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(relaxed) {
                    let pages = read(&store, 2, 0..48);
                    assert_eq!(pages.len(), 48, "an allocated page is never a hole");
                    let seed = u64::from_le_bytes(pages[0].1[..8].try_into().unwrap());
                    let version = seed.wrapping_mul(0xf1de_83e1_9937_733d);
                    assert!(version >= last && version < 2000, "version {version}");
                    last = version;
                    let inode = store.load_inode(2).unwrap().unwrap();
                    assert_eq!(inode.pages, 48);
                }
            });
        }
        scope.spawn(|| {
            while !done.load(relaxed) {
                store.tidy();
            }
        });
        for version in 2..600 {
            write(version);
        }
    });
    tidy_all(&store);
    audit(&*kv);
    assert!(blocks.size() <= 64 * 4096);
}
