//! Contents of files under idle work.

use super::audit::audit;
use super::*;
use std::time::Duration;

/// Half of the pages of each file are overwritten, so that segments are half dead.
fn half_dead(store: &StoreBackend, files: Range<u64>) {
    let mut records = vec![root()];
    for ino in files.clone() {
        let pages: Vec<_> = (0..64).map(|index| (index, page(ino + index))).collect();
        let extents = store.write_pages(ino, 1, &pages).unwrap();
        records.push(new(ino, attrs(1, Kind::File)));
        records.push(contents(ino, 1, 1, 64 * 4096, Edit::Write(extents)));
    }
    store.commit(1, records).unwrap();
    let records = files.map(|ino| {
        let pages: Vec<_> = (0..40)
            .map(|index| (index, page(ino * 1000 + index)))
            .collect();
        let extents = store.write_pages(ino, 1, &pages).unwrap();
        contents(ino, 1, 2, 64 * 4096, Edit::Write(extents))
    });
    store.commit(2, records.collect()).unwrap();
}

fn check(store: &StoreBackend, files: Range<u64>) {
    for ino in files {
        let pages = read(store, ino, 0..u64::MAX);
        assert_eq!(pages.len(), 64);
        for (index, bytes) in pages {
            let seed = if index < 40 {
                ino * 1000 + index
            } else {
                ino + index
            };
            assert!(bytes == *page(seed), "page {index} of {ino}");
        }
    }
}

#[test]
fn the_collector_frees_room_and_changes_no_contents() {
    let (store, kv, blocks) = store();
    half_dead(&store, 2..50);
    let live = 48 * 64 * 4096;
    assert_eq!(blocks.size(), 48 * 104 * 4096);
    tidy_all(&store);
    check(&store, 2..50);
    audit(&*kv);
    assert!(
        blocks.size() <= live + live / 8,
        "{} of {live}",
        blocks.size()
    );
    let epoch = KeyValues::epoch(&*kv);
    assert_eq!(tidy_all(&store), 0);
    assert_eq!(
        KeyValues::epoch(&*kv),
        epoch,
        "work that gains nothing rests"
    );
}

/// SR35: containers that are mostly live kept the rest for ever.
#[test]
fn in_quiet_times_segments_are_collected_that_are_mostly_live() {
    let (mut store, kv, blocks) = store();
    store.limits = Limits {
        quiet: Duration::from_secs(3600),
        small_pages: 0,
        ..Limits::default()
    };
    let mut records = vec![root()];
    for ino in 2..50 {
        let pages: Vec<_> = (0..64).map(|index| (index, page(ino + index))).collect();
        let extents = store.write_pages(ino, 1, &pages).unwrap();
        records.push(new(ino, attrs(1, Kind::File)));
        records.push(contents(ino, 1, 1, 64 * 4096, Edit::Write(extents)));
    }
    store.commit(1, records).unwrap();
    let cuts = (2..50).map(|ino| contents(ino, 1, 2, 64 * 4096, Edit::Cut(0..24)));
    store.commit(2, cuts.collect()).unwrap();
    let live = 48 * 40 * 4096;
    tidy_all(&store);
    assert_eq!(
        blocks.size(),
        48 * 64 * 4096,
        "while more may die they stay"
    );
    store.limits.quiet = Duration::ZERO;
    tidy_all(&store);
    assert!(blocks.size() <= live / 4 * 5, "{} of {live}", blocks.size());
    audit(&*kv);
    let epoch = KeyValues::epoch(&*kv);
    assert_eq!(tidy_all(&store), 0);
    assert_eq!(KeyValues::epoch(&*kv), epoch, "it rests");
}

#[test]
fn the_collector_finds_blocks_that_a_shift_has_moved() {
    let (store, kv, blocks) = store();
    half_dead(&store, 2..4);
    let shift = Edit::Shift { from: 0, by: 1000 };
    store
        .commit(3, vec![contents(2, 1, 3, 9_000_000, shift)])
        .unwrap();
    tidy_all(&store);
    audit(&*kv);
    let pages = read(&store, 2, 0..u64::MAX);
    assert_eq!((pages.len(), pages[0].0), (64, 1000));
    assert!(pages[63].1 == *page(2 + 63));
    assert!(blocks.size() <= 2 * 64 * 4096 + 16 * 4096);
}

#[test]
fn pages_that_no_record_names_yet_survive_the_collector() {
    let (mut store, kv, blocks) = store();
    store.limits = eager();
    store
        .commit(1, vec![root(), new(2, attrs(1, Kind::File))])
        .unwrap();
    let pages: Vec<_> = (0..32).map(|index| (index, page(index))).collect();
    let mut extents = store.write_pages(2, 1, &pages).unwrap();
    let late = extents.split_off(1);
    // One of two blocks of the segment is named, and dies.
    let named = contents(2, 1, 1, 4096, Edit::Write(extents));
    store.commit(2, vec![named]).unwrap();
    store
        .commit(3, vec![contents(2, 1, 2, 0, Edit::Cut(0..u64::MAX))])
        .unwrap();
    tidy_all(&store);
    let named = contents(2, 1, 3, 32 * 4096, Edit::Write(late));
    store.commit(4, vec![named]).unwrap();
    tidy_all(&store);
    assert_eq!(read(&store, 2, 0..32).len(), 16);
    audit(&*kv);
    store
        .commit(
            5,
            vec![Record::Gone {
                ino: 2,
                generation: 1,
                is_brief: false,
            }],
        )
        .unwrap();
    tidy_all(&store);
    assert_eq!(blocks.size(), 0);
}

#[test]
fn segments_that_nothing_names_are_removed_after_an_opening() {
    let (store, kv, blocks) = store();
    half_dead(&store, 2..4);
    store.write_pages(9, 1, &vec![(0, page(1))]).unwrap();
    let unnamed = *blocks.list().unwrap().last().unwrap();
    drop(store);
    let store = StoreBackend::new(kv, blocks.clone()).unwrap();
    *store.tidying.lock() = Tidying::new(unnamed + 1);
    store.tidy();
    assert!(!blocks.list().unwrap().contains(&unnamed));
    check(&store, 2..4);
}

#[test]
fn inline_data_moves_to_segments_when_there_is_enough() {
    let (store, kv, _) = store();
    let mut records = vec![root()];
    for ino in 2..100 {
        let bytes = hearth_backend::Place::Inline(page(ino)[..4000].into());
        let extent = Extent {
            pages: 1..2,
            place: bytes,
        };
        records.push(new(ino, attrs(1, Kind::File)));
        records.push(contents(ino, 1, 1, 8192, Edit::Write(vec![extent])));
    }
    let inline = |kv: &MemoryKv| {
        let mut count = 0;
        load::each(kv, Table::Extents, key::INLINES, &mut |_, _| {
            count += 1;
            Ok(true)
        })
        .unwrap();
        count
    };
    let few = records.split_off(40);
    store.commit(1, records).unwrap();
    tidy_all(&store);
    assert!(inline(&kv) > 0, "a few are not worth a segment");
    store.commit(2, few).unwrap();
    tidy_all(&store);
    assert_eq!(inline(&kv), 0);
    audit(&*kv);
    for ino in 2..100 {
        let pages = read(&store, ino, 0..9);
        assert_eq!((pages.len(), pages[0].0), (1, 1));
        assert_eq!(pages[0].1[..4000], page(ino)[..4000]);
        assert!(pages[0].1[4000..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn pages_that_no_record_ever_names_are_given_up_in_time() {
    let (mut store, kv, blocks) = store();
    store
        .commit(1, vec![root(), new(2, attrs(1, Kind::File))])
        .unwrap();
    let extents = store.write_pages(2, 1, &vec![(0, page(1))]).unwrap();
    tidy_all(&store);
    assert_eq!(blocks.size(), 4096);
    store.limits.patience = Duration::ZERO;
    tidy_all(&store);
    assert_eq!(blocks.size(), 4096, "the volume had no chance to name it");
    store.commit(2, vec![]).unwrap();
    store.commit(3, vec![]).unwrap();
    tidy_all(&store);
    assert_eq!(blocks.size(), 0);
    audit(&*kv);
    let late = contents(2, 1, 1, 4096, Edit::Write(extents));
    assert_eq!(store.commit(4, vec![late]), Err(Errno::EIO));
}

/// Once, what waited on a full disk for longer than an hour was given up, and the volume was
/// read-only when there was room again.
#[test]
fn pages_whose_records_wait_for_room_are_not_given_up() {
    let (mut store, kv, _) = store();
    store
        .commit(1, vec![root(), new(2, attrs(1, Kind::File))])
        .unwrap();
    let extents = store.write_pages(2, 1, &vec![(0, page(1))]).unwrap();
    kv.fill(true);
    let named = contents(2, 1, 1, 4096, Edit::Write(extents));
    assert_eq!(store.commit(2, vec![named]), Err(Errno::ENOSPC));
    store.limits.patience = Duration::ZERO;
    for _ in 0..3 {
        tidy_all(&store);
        assert_eq!(store.commit(3, vec![]), Err(Errno::ENOSPC));
    }
    kv.fill(false);
    store.commit(3, vec![]).unwrap();
    tidy_all(&store);
    assert_eq!(read(&store, 2, 0..1)[0].1, page(1).to_vec());
    audit(&*kv);
}

#[test]
fn an_error_that_is_no_lack_of_room_ends_committing() {
    let (store, ..) = store();
    store
        .commit(1, vec![root(), new(2, attrs(1, Kind::File))])
        .unwrap();
    let extent = Extent {
        pages: 0..1,
        place: hearth_backend::Place::Stored(b"nonsense"[..].into()),
    };
    let bad = contents(2, 1, 1, 4096, Edit::Write(vec![extent]));
    assert_eq!(store.commit(2, vec![bad]), Err(Errno::EIO));
    assert_eq!(store.commit(3, Vec::new()), Err(Errno::EIO));
    assert!(!store.tidy());
    assert!(store.load_inode(2).unwrap().is_some());
}
