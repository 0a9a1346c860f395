//! Numbers that are used again, also within one epoch.

use super::audit::audit;
use super::*;

fn gone(ino: u64, generation: u32) -> Record {
    Record::Gone {
        ino,
        generation,
        is_brief: false,
    }
}

fn written(store: &StoreBackend, ino: u64, generation: u32, count: u64, seed: u64) -> Record {
    let pages: Vec<_> = (0..count)
        .map(|index| (index, page(seed + index)))
        .collect();
    let extents = store.write_pages(ino, generation, &pages).unwrap();
    contents(ino, generation, 1, count * 4096, Edit::Write(extents))
}

/// All orders of a few records.
fn orders(records: Vec<Record>) -> Vec<Vec<Record>> {
    let mut orders = vec![Vec::new()];
    for record in records {
        orders = (orders.into_iter())
            .flat_map(|order: Vec<Record>| {
                (0..=order.len()).map({
                    let record = record.clone();
                    move |at| {
                        let mut order = order.clone();
                        order.insert(at, record.clone());
                        order
                    }
                })
            })
            .collect();
    }
    orders
}

#[test]
fn of_inodes_with_one_number_the_one_that_is_not_gone_stays() {
    let (probe, ..) = store();
    let second = written(&probe, 5, 2, 3, 100);
    let records = vec![
        gone(5, 1),
        new(5, attrs(2, Kind::File)),
        second,
        gone(5, 2),
        new(5, attrs(3, Kind::Directory)),
    ];
    for order in orders(records) {
        let (store, kv, _) = store();
        let first = written(&store, 5, 1, 2, 7);
        let made = vec![root(), new(5, attrs(1, Kind::File)), first];
        store.commit(1, made).unwrap();
        assert_eq!(store.load_inode(5).unwrap().unwrap().pages, 2);
        store.commit(2, order).unwrap();
        let kept = store.load_inode(5).unwrap().unwrap();
        assert_eq!(
            (kept.attrs.generation, kept.attrs.kind),
            (3, Kind::Directory)
        );
        assert_eq!(store.load_allocation(5, 0..u64::MAX).unwrap(), []);
        assert_eq!(store.strays(), 0);
        audit(&*kv);
    }
}

#[test]
fn a_name_in_a_new_directory_with_an_old_number_stays() {
    let target = |ino| Target {
        ino,
        generation: 1,
        kind: Kind::File,
    };
    let name = |generation, version, to| Record::Name {
        dir: 5,
        generation,
        name: b"n"[..].into(),
        version,
        to,
        came: false,
    };
    let records = vec![
        name(1, 8, Some(target(6))),
        name(1, 9, None),
        gone(5, 1),
        new(5, attrs(2, Kind::Directory)),
        name(2, 1, Some(target(7))),
    ];
    for order in orders(records) {
        let (store, ..) = store();
        store
            .commit(1, vec![root(), new(5, attrs(1, Kind::Directory))])
            .unwrap();
        store.commit(2, order).unwrap();
        assert_eq!(store.load_entry(5, b"n").unwrap(), Some(target(7)));
    }
}

#[test]
fn what_came_and_went_within_an_epoch_leaves_nothing() {
    let (store, kv, _) = store();
    store.commit(1, vec![root()]).unwrap();
    let before = kv.len();
    let made = vec![
        written(&store, 9, 4, 3, 1),
        gone(9, 4),
        new(9, attrs(4, Kind::File)),
    ];
    store.commit(2, made).unwrap();
    tidy_all(&store);
    assert_eq!(kv.len(), before);
    assert_eq!(store.load_inode(9).unwrap(), None);
    audit(&*kv);
    assert_eq!(store.restart().unwrap().unwrap().last_inode, 9);
}

#[test]
fn records_of_what_is_not_there_are_counted_and_change_nothing() {
    let (store, kv, _) = store();
    store.commit(1, vec![root()]).unwrap();
    let late = vec![
        contents(3, 1, 1, 7, Edit::Size),
        Record::Attrs {
            ino: 1,
            version: 2,
            attrs: attrs(9, Kind::Directory),
        },
        gone(4, 1),
    ];
    store.commit(2, late).unwrap();
    assert_eq!(store.strays(), 3);
    assert_eq!(store.load_inode(1).unwrap().unwrap().attrs.generation, 1);
    audit(&*kv);
}

#[test]
fn a_new_volume_has_nothing_to_go_on_from() {
    let store = StoreBackend::memory().unwrap();
    assert!(store.restart().unwrap().is_none());
    store.commit(1, vec![root()]).unwrap();
    assert_eq!(store.restart().unwrap().unwrap().last_inode, 1);
}

#[test]
fn a_commit_of_nothing_writes_nothing() {
    let (store, kv, _) = store();
    store.commit(1, vec![root()]).unwrap();
    let before = KeyValues::epoch(&*kv);
    store.commit(2, Vec::new()).unwrap();
    let same = Record::Attrs {
        ino: 1,
        version: 2,
        attrs: attrs(1, Kind::Directory),
    };
    store.commit(3, vec![same]).unwrap();
    tidy_all(&store);
    assert_eq!(KeyValues::epoch(&*kv), before);
}
