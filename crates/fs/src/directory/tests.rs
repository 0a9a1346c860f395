use super::*;
use crate::attr::{Kind, Target};
use ahash::RandomState;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::thread;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn target(ino: u64) -> Target {
    Target {
        ino,
        generation: 0,
        kind: Kind::File,
    }
}

struct Names {
    directory: Directory,
    keys: RandomState,
}

impl Names {
    fn new() -> Names {
        Names {
            directory: Directory::new(1, true),
            keys: RandomState::with_seeds(1, 2, 3, 4),
        }
    }

    fn set(&self, name: &str, to: Option<u64>) {
        let hash = NameHash::of(&self.keys, name.as_bytes());
        self.set_hashed(
            Hashed {
                name: name.as_bytes(),
                hash,
            },
            to,
        );
    }

    fn set_hashed(&self, at: Hashed<'_>, to: Option<u64>) {
        let g = pin();
        let locked = self.directory.lock(at, &g).expect("alive");
        locked.apply(
            Change {
                at,
                to: to.map(target),
            },
            &g,
        );
    }

    fn log2(&self) -> u32 {
        self.directory.table.load(&pin()).map_or(0, Table::log2)
    }

    fn get(&self, name: &str) -> Option<u64> {
        let g = pin();
        let hash = NameHash::of(&self.keys, name.as_bytes());
        match self.directory.lookup(name.as_bytes(), hash, &g) {
            Look::Hit(entry) => Some(entry.ino()),
            Look::Absent => None,
            Look::Unknown => panic!("a complete directory knows"),
        }
    }

    fn list(&self) -> Vec<u64> {
        let g = pin();
        let mut seen = Vec::new();
        assert!(self.directory.list(2, &g, |entry| {
            seen.push(entry.ino());
            true
        }));
        seen
    }
}

#[test]
fn names_with_one_hash_keep_apart_at_every_size() {
    let names = Names::new();
    let hash = NameHash::of(&names.keys, b"any");
    let all: Vec<String> = (0..40).map(|n| format!("twin-{n}")).collect();
    let g = pin();
    for (n, name) in all.iter().enumerate() {
        names.set_hashed(
            Hashed {
                name: name.as_bytes(),
                hash,
            },
            Some(n as u64 + 1),
        );
        names.directory.grow(1 << (n / 4), &g);
    }
    for (n, name) in all.iter().enumerate() {
        let Look::Hit(entry) = names.directory.lookup(name.as_bytes(), hash, &g) else {
            panic!("{name} is lost");
        };
        assert_eq!(entry.ino(), n as u64 + 1);
    }
    assert_eq!(names.list().into_iter().collect::<BTreeSet<_>>().len(), 40);
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
        names.directory.list(cookie, &g, |entry| {
            if entry.ino() > 300 {
                cookie = entry.cookie;
                return true;
            }
            if seen.len() == before + 7 {
                return false;
            }
            cookie = entry.cookie;
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
fn a_directory_with_entries_cannot_be_killed_and_a_dead_one_takes_none() {
    let names = Names::new();
    let g = pin();
    names.set("x", Some(7));
    assert_eq!(names.directory.kill(&g).err(), Some(Refused::NotEmpty));
    names.set("x", None);
    drop(names.directory.kill(&g).expect("empty"));
    names.set("x", Some(8));
    names.set("x", None);
    names.directory.kill(&g).expect("empty").finish();
    let at = Hashed {
        name: b"y",
        hash: NameHash::of(&names.keys, b"y"),
    };
    assert!(names.directory.lock(at, &g).is_err());
}

#[test]
fn an_evicted_directory_asks_and_learns_again() {
    let names = Names::new();
    let g = pin();
    names.set("a", Some(1));
    names.set("b", Some(2));
    assert!(names.directory.evict(&g));
    let at = |name: &'static [u8]| Hashed {
        name,
        hash: NameHash::of(&names.keys, name),
    };
    let a = at(b"a");
    assert!(matches!(
        names.directory.lookup(a.name, a.hash, &g),
        Look::Unknown
    ));
    let absent = at(b"none");
    let learn = |at, answer| {
        let before = names.directory.unknown(at, &g).expect("alive and unknown");
        assert!(names.directory.learn(at, answer, before, &g).is_some());
        assert!(names.directory.unknown(at, &g).is_none(), "now it is known");
    };
    learn(a, Some(target(1)));
    learn(absent, None);
    assert!(matches!(
        names.directory.lookup(a.name, a.hash, &g),
        Look::Hit(_)
    ));
    assert!(matches!(
        names.directory.lookup(absent.name, absent.hash, &g),
        Look::Absent
    ));
    assert!(matches!(
        names.directory.kill(&g).err(),
        Some(Refused::NotEmpty)
    ));
    let listed = || {
        let entry = |name: &[u8], ino| (name.into(), target(ino));
        Ok::<_, ()>(vec![entry(b"a", 1), entry(b"b", 2)])
    };
    let hash = |name: &[u8]| NameHash::of(&names.keys, name);
    assert_eq!(
        names.directory.load(2, hash, || Err(5)),
        Err(5),
        "a failing home changes nothing"
    );
    assert!(!names.directory.is_complete());
    names
        .directory
        .load(2, hash, listed)
        .expect("the home answers");
    assert_eq!(
        (names.get("a"), names.get("b"), names.get("none")),
        (Some(1), Some(2), None)
    );
    assert_eq!(names.list().len(), 2);
}

/// A file is renamed from 0 to 1, to 2, ... A reader that misses a name therefore finds a later
/// one: at no moment is there none (C4).
#[test]
fn who_misses_the_old_name_finds_the_new_one() {
    const LAST: u64 = 20_000;
    let names = Names::new();
    names.set("0", Some(1));
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..LAST {
                let g = pin();
                let (from, to) = (n.to_string(), (n + 1).to_string());
                let at = |name: &'_ str| NameHash::of(&names.keys, name.as_bytes());
                let from = Hashed {
                    name: from.as_bytes(),
                    hash: at(&from),
                };
                let to = Hashed {
                    name: to.as_bytes(),
                    hash: at(&to),
                };
                let ends = ((&names.directory, 1, from), (&names.directory, 1, to));
                let pair = lock_pair(ends.0, ends.1, &g).expect("alive");
                let here = Change { at: from, to: None };
                let there = Change {
                    at: to,
                    to: Some(target(1)),
                };
                pair.apply(here, there, &g);
                if n % 500 == 0 {
                    names.directory.grow(n, &g);
                }
            }
        });
        scope.spawn(|| {
            let mut here = 0;
            while here < LAST {
                if names.get(&here.to_string()).is_none() {
                    here += 1;
                }
            }
            assert_eq!(
                names.get(&LAST.to_string()),
                Some(1),
                "the name was lost on the way"
            );
        });
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

/// What the home said before a name changed is not learnt after.
#[test]
fn an_answer_that_is_out_of_date_is_not_learnt() {
    let names = Names::new();
    let g = pin();
    names.set("a", Some(1));
    assert!(names.directory.evict(&g));
    let at = |name: &'static [u8]| Hashed {
        name,
        hash: NameHash::of(&names.keys, name),
    };
    let a = at(b"a");
    let before = names.directory.unknown(a, &g).expect("unknown");
    names.set("a", None);
    assert!(
        names
            .directory
            .learn(a, Some(target(1)), before, &g)
            .is_none()
    );
    // Nor what was said before an eviction: the count of another table says nothing of this one.
    assert!(names.directory.evict(&g));
    let before = names.directory.unknown(a, &g).expect("unknown");
    assert!(names.directory.evict(&g));
    assert!(
        names
            .directory
            .learn(a, Some(target(1)), before, &g)
            .is_none()
    );
    assert!(names.directory.unknown(a, &g).is_some());

    // A directory that changes while it is listed is listed again, in the end held still.
    let lists = std::cell::Cell::new(0);
    let hash = |name: &[u8]| NameHash::of(&names.keys, name);
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
        .load(2, hash, list)
        .expect("the home answers");
    let ino = |name: &'static [u8]| match names.directory.lookup(name, hash(name), &g) {
        Look::Hit(entry) => Some(entry.ino()),
        Look::Absent => None,
        Look::Unknown => panic!("the directory is complete"),
    };
    assert_eq!(
        (ino(b"stale"), ino(b"b"), ino(b"c")),
        (None, Some(3), Some(4))
    );
    assert_eq!(lists.get(), 4);
}

/// In eight buckets those who make and remove files of their own wait for each other again and again.
#[test]
fn a_directory_that_several_change_at_once_spreads_its_names() {
    let names = Names::new();
    // One bucket for both, whatever the size of the table.
    let hash = NameHash::of(&names.keys, b"any");
    let at = |name: &'static str| Hashed {
        name: name.as_bytes(),
        hash,
    };
    names.set_hashed(at("first"), Some(1));
    let before = names.log2();
    let limit = Instant::now() + Duration::from_secs(60);
    while names.log2() == before {
        assert!(Instant::now() < limit, "nobody met");
        let g = pin();
        let held = names.directory.lock(at("first"), &g).expect("alive");
        thread::scope(|scope| {
            scope.spawn(|| {
                let (at, to) = (at("second"), Some(target(2)));
                let g = pin();
                let locked = names.directory.lock(at, &g).expect("alive");
                if locked.apply(Change { at, to }, &g) {
                    names.directory.grow(2, &g);
                }
            });
            thread::sleep(Duration::from_millis(10));
            drop(held);
        });
    }
    assert_eq!(1 << names.log2(), (APART * cores()).next_power_of_two());
    assert_eq!(names.list().into_iter().collect::<BTreeSet<_>>().len(), 2);
    assert_eq!(names.directory.wanted(2, names.log2()), None);
}

/// Once, a file that came and went in an evicted directory had the home asked each time.
#[test]
fn a_name_that_is_removed_from_an_evicted_directory_is_known_to_be_absent() {
    let names = Names::new();
    let g = pin();
    names.set("a", Some(1));
    assert!(names.directory.evict(&g));
    names.set("a", Some(1));
    names.set("a", None);
    assert_eq!(names.get("a"), None);
}

/// Once, all names that were learnt one by one went to the eight buckets of a new table.
#[test]
fn what_is_learnt_finds_room_and_absences_are_few() {
    let names = Names::new();
    let g = pin();
    assert!(
        names
            .directory
            .load(0, |_| unreachable!(), || Ok::<_, ()>(vec![]))
            .is_ok()
    );
    assert!(names.directory.evict(&g));
    let learn = |n: u64, is_there: bool| {
        let name = format!("{n}");
        let at = Hashed {
            name: name.as_bytes(),
            hash: NameHash::of(&names.keys, name.as_bytes()),
        };
        let before = names.directory.unknown(at, &g).expect("unknown");
        let answer = is_there.then(|| target(n + 1));
        if names.directory.learn(at, answer, before, &g) == Some(true) {
            names.directory.grow_a_step(1_000, &g);
        }
    };
    (0..1_000).for_each(|n| learn(n, true));
    let buckets = 1 << names.log2();
    assert!((128..=1_024).contains(&buckets), "{buckets}");
    // More than there are buckets for: those of before give way.
    (1_000..20_000).for_each(|n| learn(n, false));
    assert_eq!(1 << names.log2(), buckets);
    let table = names.directory.table.load(&g).expect("it has entries");
    let (mut absent, mut there) = (0, 0);
    for bucket in table.buckets() {
        bucket.for_each(&g, |entry| match entry.is_negative() {
            true => absent += 1,
            false => there += 1,
        });
    }
    assert!(
        (1..=bucket::ABSENCES * buckets).contains(&absent),
        "{absent}"
    );
    assert_eq!(there, 1_000);
}

/// Once, each name of a directory that was loaded as a whole was compared with an eighth of them.
#[test]
fn a_directory_is_loaded_into_a_table_of_its_size() {
    let names = Names::new();
    let g = pin();
    names.set("a", Some(1));
    assert!(names.directory.evict(&g));
    let list = || {
        Ok::<_, ()>(
            (1..=5_000)
                .map(|n| (format!("{n}").into_bytes().into(), target(n)))
                .collect(),
        )
    };
    let hash = |name: &[u8]| {
        // All that are in when the last one comes have their place.
        assert!(names.log2() >= 10, "{}", names.log2());
        NameHash::of(&names.keys, name)
    };
    assert_eq!(names.directory.load(5_000, hash, list), Ok(()));
    assert_eq!(names.list().len(), 5_000);
}
