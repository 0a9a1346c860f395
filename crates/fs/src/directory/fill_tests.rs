//! Directories that were evicted and are filled again.

use super::tests::{Names, target};
use super::*;
use hearth_sync::epoch::pin;

#[test]
fn a_listing_ends_where_its_directory_is_evicted_and_says_so() {
    let names = Names::new();
    for n in 1..=80 {
        names.set(&format!("file-{n}"), Some(n));
    }
    let g = pin();
    let mut seen = 0;
    let is_complete = names.directory.list(2, &g, |entries| {
        if seen == 0 {
            assert!(names.directory.evict(None, || true, &g));
        }
        seen += entries.len();
        true
    });
    assert!(!is_complete);
    // Those that were gathered with the first one were read before.
    assert!((1..80).contains(&seen), "{seen}");
}

#[test]
fn an_evicted_directory_asks_the_backend_and_is_filled_again() {
    let names = Names::new();
    let g = pin();
    names.set("a", Some(1));
    names.set("b", Some(2));
    assert!(names.directory.evict(None, || true, &g));
    let a = names.at("a");
    assert!(matches!(names.directory.lookup(&a, &g), Lookup::Unknown));
    let absent = names.at("none");
    let fill = |at, answer| {
        let before = names
            .directory
            .version_if_unknown(at, &g)
            .expect("alive and unknown");
        assert!(
            names
                .directory
                .fill(at, answer, before, u64::MAX, &g)
                .is_some()
        );
        assert!(
            names.directory.version_if_unknown(at, &g).is_none(),
            "now it is known"
        );
    };
    fill(a, Some(target(1)));
    fill(absent, None);
    assert!(matches!(names.directory.lookup(&a, &g), Lookup::Hit(_)));
    assert!(matches!(
        names.directory.lookup(&absent, &g),
        Lookup::Negative
    ));
    assert!(matches!(
        names.directory.begin_removal(&g).err(),
        Some(Refused::NotEmpty)
    ));
    let listed = || {
        let entry = |name: &[u8], ino| (name.into(), target(ino));
        Ok::<_, ()>(vec![entry(b"a", 1), entry(b"b", 2)])
    };
    let keys = &names.keys;
    assert_eq!(
        names.directory.load(2, keys, || Err(5)),
        Err(5),
        "a failing backend changes nothing"
    );
    assert!(!names.directory.is_complete());
    names
        .directory
        .load(2, keys, listed)
        .expect("the backend returns");
    assert_eq!(
        (names.get("a"), names.get("b"), names.get("none")),
        (Some(1), Some(2), None)
    );
    assert_eq!(names.list().len(), 2);
}

/// A result that the backend gave before a name changed is not stored afterwards.
#[test]
fn a_result_that_is_out_of_date_is_not_filled_in() {
    let names = Names::new();
    let g = pin();
    names.set("a", Some(1));
    assert!(names.directory.evict(None, || true, &g));
    let a = names.at("a");
    let before = names.directory.version_if_unknown(a, &g).expect("unknown");
    names.set("a", None);
    assert!(
        names
            .directory
            .fill(a, Some(target(1)), before, u64::MAX, &g)
            .is_none()
    );
    // A result from before an eviction does not count either: the count of another table says
    // nothing about this one.
    assert!(names.directory.evict(None, || true, &g));
    let before = names.directory.version_if_unknown(a, &g).expect("unknown");
    assert!(names.directory.evict(None, || true, &g));
    assert!(
        names
            .directory
            .fill(a, Some(target(1)), before, u64::MAX, &g)
            .is_none()
    );
    assert!(names.directory.version_if_unknown(a, &g).is_some());

    // A directory that changes while it is listed is listed again, in the end under its locks.
    let lists = std::cell::Cell::new(0);
    let keys = &names.keys;
    let list = || {
        lists.set(lists.get() + 1);
        if lists.get() <= 3 {
            names.set("b", Some(lists.get()));
            return Ok::<_, ()>(vec![(b"stale"[..].into(), target(9))]);
        }
        Ok(vec![
            (b"b"[..].into(), target(8)),
            (b"c"[..].into(), target(4)),
        ])
    };
    names
        .directory
        .load(2, keys, list)
        .expect("the backend returns");
    let ino = |name: &'static [u8]| match names.directory.lookup(&keys.hashed(name), &g) {
        Lookup::Hit(entry) => Some(entry.ino()),
        Lookup::Negative => None,
        Lookup::Unknown => panic!("the directory is complete"),
    };
    assert_eq!(
        (ino(b"stale"), ino(b"b"), ino(b"c")),
        (None, Some(3), Some(4))
    );
    assert_eq!(lists.get(), 4);
}

/// Regression: a file that came and went in an evicted directory made every lookup ask the backend.
#[test]
fn a_name_that_is_removed_from_an_evicted_directory_is_known_to_be_absent() {
    let names = Names::new();
    let g = pin();
    names.set("a", Some(1));
    assert!(names.directory.evict(None, || true, &g));
    names.set("a", Some(1));
    names.set("a", None);
    assert_eq!(names.get("a"), None);
}

/// Regression: all names that were filled one by one went to the eight buckets of a new table.
#[test]
fn filled_names_find_space_and_negative_entries_stay_few() {
    let names = Names::new();
    let g = pin();
    names.set("z", Some(9));
    names.set("z", None);
    assert!(names.directory.evict(None, || true, &g));
    let fill = |n: u64, is_there: bool| {
        let name = format!("{n}");
        let at = names.at(&name);
        let before = names.directory.version_if_unknown(at, &g).expect("unknown");
        let answer = is_there.then(|| target(n + 1));
        if names.directory.fill(at, answer, before, u64::MAX, &g) == Some(true) {
            names.directory.grow_a_step(1_000, &g);
        }
    };
    (0..1_000).for_each(|n| fill(n, true));
    let buckets = 1 << names.log2();
    assert!(buckets >= 128, "{buckets}");
    // More names than there will ever be buckets for: earlier negative entries are replaced.
    (1_000..20_000).for_each(|n| fill(n, false));
    let buckets = 1 << names.log2();
    assert_eq!(buckets as u64, fill::ASKED / 2);
    let table = names.directory.table.load(&g).expect("it has entries");
    let (mut absent, mut there) = (0, 0);
    for bucket in table.buckets() {
        bucket.for_each(&g, |entry| match entry.is_negative() {
            true => absent += 1,
            false => there += 1,
        });
    }
    assert!(
        (1..=bucket::NEGATIVES * buckets).contains(&absent),
        "{absent}"
    );
    assert_eq!(there, 1_000);
}

/// Regression: each name of a directory that was loaded as a whole was compared with an eighth of
/// them.
#[test]
fn a_directory_is_loaded_into_a_table_of_its_size() {
    let names = Names::new();
    let g = pin();
    names.set("a", Some(1));
    assert!(names.directory.evict(None, || true, &g));
    let list = || {
        // All names have their buckets before the first one arrives.
        assert!(names.log2() >= 10, "{}", names.log2());
        Ok::<_, ()>(
            (1..=5_000)
                .map(|n| (format!("{n}").into_bytes().into(), target(n)))
                .collect(),
        )
    };
    assert_eq!(names.directory.load(5_000, &names.keys, list), Ok(()));
    assert_eq!(names.list().len(), 5_000);
}

/// Regression: a bucket of a growing table and its successor had the same version.
#[test]
fn a_result_from_before_a_bucket_moved_is_not_filled_in() {
    let names = Names::new();
    let g = pin();
    assert!(
        names
            .directory
            .load(0, &names.keys, || Ok::<_, ()>(vec![]))
            .is_ok()
    );
    names.set("b", Some(2));
    assert!(names.directory.evict(None, || true, &g));
    let a = names.at("a");
    assert!(
        names.directory.version_if_unknown(a, &g).is_some(),
        "there is a table now"
    );
    let directory = &names.directory;
    assert!(directory.try_grow(100, 0, &g), "growth begins");
    let before = directory.version_if_unknown(a, &g).expect("unknown");
    directory.grow(100, &g);
    assert!(
        directory
            .fill(a, Some(target(1)), before, u64::MAX, &g)
            .is_none()
    );
    let before = directory.version_if_unknown(a, &g).expect("unknown");
    assert!(
        directory
            .fill(a, Some(target(1)), before, u64::MAX, &g)
            .is_some()
    );
}
