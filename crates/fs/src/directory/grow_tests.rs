//! Tables that grow.

use super::tests::{Names, target};
use super::*;
use hearth_sync::epoch::pin;
use std::collections::BTreeSet;

#[test]
fn a_table_that_grows_in_steps_is_one_directory_throughout() {
    let names = Names::new();
    const OLD: u64 = 8_000;
    for n in 1..=OLD {
        names.set(&format!("old-{n}"), Some(n));
    }
    let g = pin();
    let directory = &names.directory;
    directory.grow(OLD, &g);
    let (before, grows) = (names.log2(), || {
        directory.table.load(&g).is_some_and(BucketTable::grows)
    });
    let mut all: BTreeSet<u64> = (1..=OLD).collect();
    let mut parts = 0;
    for n in OLD + 1.. {
        directory.grow_some(|| 3 * OLD, &g);
        parts += 1;
        names.set(&format!("new-{n}"), Some(n));
        names.set(&format!("old-{}", n - OLD), None);
        all.insert(n);
        all.remove(&(n - OLD));
        assert_eq!(names.get(&format!("new-{n}")), Some(n));
        assert_eq!(names.get(&format!("old-{}", n - OLD)), None);
        assert_eq!(
            names.get(&format!("old-{}", n - OLD + 1)),
            Some(n - OLD + 1)
        );
        assert_eq!(names.list().into_iter().collect::<BTreeSet<_>>(), all);
        assert_eq!(names.list().len(), all.len());
        if !grows() {
            break;
        }
        assert_eq!(names.log2(), before, "not before all have moved");
    }
    assert!(parts > 4, "{parts} parts");
    assert!(names.log2() > before);
}

/// An operation that needs all names in one table finishes growth that has begun.
#[test]
fn a_growing_directory_is_removed_and_loaded_like_any_other() {
    let g = pin();
    let half_grown = || {
        let names = Names::new();
        (1..=2_000).for_each(|n| names.set(&format!("{n}"), Some(n)));
        names.directory.grow(2_000, &g);
        names.directory.grow_some(|| 6_000, &g);
        let table = names.directory.table.load(&g);
        assert!(table.is_some_and(BucketTable::grows));
        names
    };
    let names = half_grown();
    assert_eq!(
        names.directory.begin_removal(&g).err(),
        Some(Refused::NotEmpty)
    );
    let names = half_grown();
    (1..=2_000).for_each(|n| names.set(&format!("{n}"), None));
    {
        let table = names.directory.table.load(&g).expect("a table");
        let _last = table.buckets().last().expect("buckets").lock.lock_guard();
        assert_eq!(names.directory.begin_removal(&g).err(), Some(Refused::Busy));
    }
    names.directory.begin_removal(&g).expect("empty").finish();
    assert!(names.directory.lock(names.at("a"), &g).is_err());

    let names = half_grown();
    assert!(names.directory.evict(None, || true, &g));
    let list = || Ok::<_, ()>(vec![(Box::from(&b"a"[..]), target(1))]);
    assert_eq!(names.directory.load(1, &names.keys, list), Ok(()));
    assert_eq!(names.list(), [1]);
}

/// Regression: growth that began before a directory was removed brought it back.
#[test]
fn a_removed_directory_does_not_grow() {
    let names = Names::new();
    let g = pin();
    names.set("a", Some(1));
    names.set("a", None);
    names
        .directory
        .begin_removal(&g)
        .expect("it is empty")
        .finish();
    names.directory.grow(1_000, &g);
    let at = names.at("a");
    assert!(names.directory.lock(at, &g).is_err());
}

/// Names whose tags say which bucket of a larger table they go to.
#[test]
fn a_large_table_grows_and_every_name_is_found() {
    const LARGE: u64 = 20_000;
    let names = Names::new();
    for n in 1..=LARGE {
        names.set(&format!("name-{n}"), Some(n));
    }
    let g = pin();
    names.directory.grow(LARGE, &g);
    let large = names.log2();
    assert!(large >= 12, "{large}");
    for entries in [2 * LARGE, 1 << 17, 1 << 20] {
        names.directory.grow(entries, &g);
        for n in 1..=LARGE {
            assert_eq!(names.get(&format!("name-{n}")), Some(n), "{entries}");
        }
        let listed = names.list();
        assert_eq!(listed.len() as u64, LARGE);
        assert_eq!(
            listed.into_iter().collect::<BTreeSet<_>>(),
            (1..=LARGE).collect()
        );
    }
    assert!(names.log2() > large + 4, "{}", names.log2());
}

/// The entry names a wrong bucket, and is not consulted.
#[test]
fn an_entry_of_a_large_table_moves_without_being_read() {
    let names = Names::new();
    let (small, large) = (BucketTable::new(12), BucketTable::new(14));
    let wrong = |at: Hashed<'_>| !at.hash.cookie() & (u64::MAX >> (64 - NameHash::COOKIE_BITS));
    let next = |table: &BucketTable, at: Hashed<'_>| {
        let entry = Entry::new(&at, wrong(at), target(1));
        let index = at.hash.bucket(table.log2());
        std::ptr::from_ref(large.successor_of(index, table.log2(), at.hash.tag(), &entry))
    };
    for n in 0..1_000 {
        let name = format!("name-{n}");
        let at = names.at(&name);
        assert!(std::ptr::eq(next(&small, at), large.bucket(at.hash)), "{n}");
        let other = large.bucket_at(NameHash::position_of(wrong(at)));
        assert!(!std::ptr::eq(other, large.bucket(at.hash)), "{n}");
    }
}
