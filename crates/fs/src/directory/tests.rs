use super::*;
use crate::attr::{Kind, Target};
use crate::hashed::NameKeys;
use ahash::RandomState;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::cores;
use hearth_sync::primitive::thread;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub(super) fn target(ino: u64) -> Target {
    Target {
        ino,
        generation: 0,
        kind: Kind::File,
    }
}

pub(super) struct Names {
    pub directory: Directory,
    pub keys: NameKeys,
}

impl Names {
    pub fn new() -> Names {
        Names {
            directory: Directory::new(1, true),
            keys: NameKeys::from(&RandomState::with_seeds(1, 2, 3, 4)),
        }
    }

    pub fn set(&self, name: &str, to: Option<u64>) {
        self.set_hashed(self.at(name), to);
    }

    pub fn set_hashed(&self, at: Hashed<'_>, to: Option<u64>) {
        let g = pin();
        let locked = self.directory.lock(at, &g).expect("alive");
        locked.apply(
            EntryChange {
                at,
                to: to.map(target),
            },
            &g,
        );
    }

    pub fn at<'n>(&self, name: &'n str) -> Hashed<'n> {
        self.keys.hashed(name.as_bytes())
    }

    /// A name as if its hash were this one.
    fn at_hash<'n>(&self, name: &'n str, hash: u64) -> Hashed<'n> {
        Hashed {
            hash: NameHash::from_value(hash),
            ..self.at(name)
        }
    }

    pub fn log2(&self) -> u32 {
        self.directory
            .table
            .load(&pin())
            .map_or(0, BucketTable::log2)
    }

    pub fn get(&self, name: &str) -> Option<u64> {
        let g = pin();
        match self.directory.lookup(&self.at(name), &g) {
            Lookup::Hit(entry) => Some(entry.ino()),
            Lookup::Negative => None,
            Lookup::Unknown => panic!("a complete directory knows"),
        }
    }

    pub fn list(&self) -> Vec<u64> {
        let g = pin();
        let mut seen = Vec::new();
        assert!(self.list_behind(2, &g, |entry| {
            seen.push(entry.ino());
            true
        }));
        seen
    }

    /// Passes the entries behind `cookie` one by one.
    fn list_behind(&self, cookie: u64, g: &Guard, mut f: impl FnMut(&Entry) -> bool) -> bool {
        let each = |entries: &[&Entry]| entries.iter().all(|entry| f(entry));
        self.directory.list(cookie, g, each)
    }
}

#[test]
fn names_with_one_hash_are_distinct_at_every_table_size() {
    let names = Names::new();
    let hash = names.at("any").hash.value();
    let all: Vec<String> = (0..40).map(|n| format!("twin-{n}")).collect();
    let g = pin();
    for (n, name) in all.iter().enumerate() {
        names.set_hashed(names.at_hash(name, hash), Some(n as u64 + 1));
        names.directory.grow(1 << (n / 4), &g);
    }
    for (n, name) in all.iter().enumerate() {
        let Lookup::Hit(entry) = names.directory.lookup(&names.at_hash(name, hash), &g) else {
            panic!("{name} is lost");
        };
        assert_eq!(entry.ino(), n as u64 + 1);
    }
    assert_eq!(names.list().into_iter().collect::<BTreeSet<_>>().len(), 40);
}

/// The second one is displaced, to where the third one's own hash points.
#[test]
fn names_whose_cookies_would_be_equal_have_cookies_of_their_own() {
    let names = Names::new();
    let one = NameHash::position_of(1);
    let hash = names.at("any").hash.value() & !(8 * one - 1);
    // With tags of their own.
    let all = [
        ("first", hash),
        ("second", hash | 1),
        ("third", hash + one),
        ("other", hash + 5 * one),
    ];
    for (n, (name, hash)) in all.into_iter().enumerate() {
        names.set_hashed(names.at_hash(name, hash), Some(n as u64 + 1));
    }
    let mut cookies = Vec::new();
    names.list_behind(2, &pin(), |entry| {
        cookies.push((entry.ino(), entry.cookie()));
        true
    });
    let first = NameHash::from_value(hash).cookie();
    assert_eq!(
        cookies,
        [(1, first), (2, first + 1), (3, first + 2), (4, first + 5)]
    );
}

/// A program whose `off_t` has 32 bits can take them all, and none is that of a dot.
#[test]
fn cookies_fit_in_31_bits_and_a_full_group_has_256_of_them() {
    let names = Names::new();
    let hashes = [0, NameHash::position_of(1 << 20), (1 << NameHash::BITS) - 1];
    for (kind, hash) in hashes.into_iter().enumerate() {
        for n in 0..256 {
            let name = format!("{kind}-{n}");
            let least = 1 << (NameHash::BITS - NameHash::GROUP_BITS);
            names.set_hashed(names.at_hash(&name, hash.max(least)), Some(n + 1));
        }
    }
    let mut cookies = Vec::new();
    names.list_behind(2, &pin(), |entry| {
        cookies.push(entry.cookie());
        true
    });
    assert_eq!(cookies.len(), 3 * 256);
    assert!(cookies.is_sorted_by(|a, b| a < b), "each once");
    assert!(cookies[0] > 2 && cookies[3 * 256 - 1] <= i32::MAX as u64);
}

#[test]
fn a_listing_that_stops_and_goes_on_across_growth_misses_nothing() {
    let names = Names::new();
    for n in 1..=300 {
        names.set(&format!("old-{n}"), Some(n));
    }
    let g = pin();
    let (mut seen, mut cookie) = (Vec::new(), 2);
    while seen.len() < 300 {
        let before = seen.len();
        names.list_behind(cookie, &g, |entry| {
            if entry.ino() > 300 {
                cookie = entry.cookie();
                return true;
            }
            if seen.len() == before + 7 {
                return false;
            }
            cookie = entry.cookie();
            seen.push(entry.ino());
            true
        });
        let more = 1000 + seen.len() as u64;
        names.set(&format!("new-{more}"), Some(more));
        names.directory.grow(20 * more, &g);
        assert!(seen.len() > before, "the listing goes on");
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=300).collect::<Vec<_>>());
}

#[test]
fn a_listing_that_overtakes_growth_misses_nothing() {
    let names = Names::new();
    let g = pin();
    for n in 1..=300 {
        names.set(&format!("old-{n}"), Some(n));
    }
    names.directory.grow(300, &g);
    let table = names.directory.table.load(&g).expect("there are entries");
    let middle = table.buckets().len() / 2;
    assert!(middle > 1, "a table of many buckets");
    thread::scope(|scope| {
        // Growth waits here until the listing is done.
        let held = table.buckets()[middle].lock.lock_guard();
        scope.spawn(|| names.directory.grow(8000, &pin()));
        while !table.buckets()[middle - 1].is_moved() {
            thread::yield_now();
        }
        let mut seen = names.list();
        seen.sort_unstable();
        assert_eq!(seen, (1..=300).collect::<Vec<_>>());
        drop(held);
    });
    assert_eq!(names.list().len(), 300);
}

#[test]
fn a_listing_between_whose_entries_the_table_grows_misses_nothing() {
    let names = Names::new();
    let g = pin();
    for n in 1..=300 {
        names.set(&format!("old-{n}"), Some(n));
    }
    let mut seen = Vec::new();
    assert!(names.list_behind(2, &g, |entry| {
        seen.push(entry.ino());
        // All buckets of the table that is being listed are empty then.
        if seen.len() % 100 == 1 {
            names.directory.grow(400 << (seen.len() / 50), &pin());
        }
        true
    }));
    assert!(names.log2() >= 11, "it has grown twice or more");
    seen.sort_unstable();
    assert_eq!(seen, (1..=300).collect::<Vec<_>>());
}

#[test]
fn a_directory_with_entries_cannot_be_removed_and_a_removed_one_takes_no_entry() {
    let names = Names::new();
    let g = pin();
    names.set("x", Some(7));
    assert_eq!(
        names.directory.begin_removal(&g).err(),
        Some(Refused::NotEmpty)
    );
    names.set("x", None);
    drop(names.directory.begin_removal(&g).expect("empty"));
    names.set("x", Some(8));
    names.set("x", None);
    names.directory.begin_removal(&g).expect("empty").finish();
    assert!(names.directory.lock(names.at("y"), &g).is_err());
}

/// A file is renamed from 0 to 1, to 2, ... A reader that misses a name therefore finds a later
/// one: at every version one of them exists (C4).
#[test]
fn a_reader_that_misses_the_old_name_finds_the_new_one() {
    const LAST: u64 = 20_000;
    let names = Names::new();
    names.set("0", Some(1));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..LAST {
                let g = pin();
                let (from, to) = (n.to_string(), (n + 1).to_string());
                let (from, to) = (names.at(&from), names.at(&to));
                let ends = ((&names.directory, 1, from), (&names.directory, 1, to));
                let mut pair = lock_pair(ends.0, ends.1, &g).expect("alive");
                // With the places that a rename has found, and without.
                if n % 2 == 0 {
                    assert!(matches!(pair.find(false, (from, None), &g), Lookup::Hit(_)));
                    assert!(matches!(pair.find(true, (to, None), &g), Lookup::Negative));
                }
                let here = EntryChange { at: from, to: None };
                let there = EntryChange {
                    at: to,
                    to: Some(target(1)),
                };
                pair.apply(here, there, &g);
                drop(pair);
                if n % 500 == 0 {
                    names.directory.grow(n, &g);
                }
            }
        });
        let mut here = 0;
        while here < LAST {
            if names.get(&here.to_string()).is_none() {
                here += 1;
            } else if writer.is_finished() && names.get(&here.to_string()).is_some() {
                writer.join().expect("the writer comes to the last name");
                panic!("{here} stays");
            }
        }
        assert_eq!(
            names.get(&LAST.to_string()),
            Some(1),
            "the name was lost on the way"
        );
    });
    assert_eq!(names.list(), [1]);
}

#[test]
fn readers_and_writers_go_on_while_the_table_grows() {
    let names = Names::new();
    for n in 0..500 {
        names.set(&format!("stays-{n}"), Some(n + 1));
    }
    thread::scope(|scope| {
        for t in 0..2u64 {
            let names = &names;
            scope.spawn(move || {
                for n in 0..4000u64 {
                    let name = format!("{t}-{n}");
                    names.set(&name, Some(10_000 + n));
                    names.directory.grow(t + 4 * n, &pin());
                    if n % 2 == 0 {
                        names.set(&name, None);
                    }
                }
            });
        }
        scope.spawn(|| {
            for round in 0..40_000u64 {
                let n = round % 500;
                assert_eq!(names.get(&format!("stays-{n}")), Some(n + 1));
            }
        });
    });
    assert_eq!(names.list().len(), 500 + 2 * 2000);
}

/// In eight buckets, threads that create and remove files of their own contend again and again.
#[test]
fn a_directory_that_several_threads_change_at_once_spreads_its_names() {
    let names = Names::new();
    // One bucket for both, whatever the size of the table.
    let hash = names.at("any").hash.value();
    let at = |name: &'static str| names.at_hash(name, hash);
    names.set_hashed(at("first"), Some(1));
    let before = names.log2();
    let limit = Instant::now() + Duration::from_secs(60);
    while names.log2() == before {
        assert!(Instant::now() < limit, "they met too seldom");
        let g = pin();
        let held = names.directory.lock(at("first"), &g).expect("alive");
        thread::scope(|scope| {
            scope.spawn(|| {
                let (at, to) = (at("second"), Some(target(2)));
                let g = pin();
                let locked = names.directory.lock(at, &g).expect("alive");
                if locked.apply(EntryChange { at, to }, &g) {
                    names.directory.grow(2, &g);
                }
            });
            thread::sleep(Duration::from_millis(10));
            drop(held);
        });
    }
    assert_eq!(
        1 << names.log2(),
        (BUCKETS_PER_CORE * cores()).next_power_of_two()
    );
    assert_eq!(names.list().into_iter().collect::<BTreeSet<_>>().len(), 2);
    assert_eq!(names.directory.wanted(2, names.log2()), None);
}
