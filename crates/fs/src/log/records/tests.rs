//! Facts about records that take the place of others.

use super::*;
use crate::attr::Kind;

use crate::backend::{Backend, Inode, TestBackend};
use crate::tenant::TenantId;
use std::collections::BTreeMap;

const COST: u64 = 100;
const DIR: u64 = 1;
const GENERATION: u32 = 1;

fn attrs(generation: u32, nlink: u32) -> Attrs {
    Attrs {
        nlink,
        ..Attrs::new(generation, Kind::File, 0o644)
    }
}

fn inode(ino: u64, attrs: Attrs) -> Inode {
    Inode {
        ino,
        attrs,
        size: 0,
        pages: 0,
        touched: 0,
        entries: (0, 0),
        parent: 0,
        target: Box::default(),
        xattrs: Vec::new(),
    }
}

fn changed(ino: u64, version: u32, attrs: Attrs) -> Record {
    Record::Attrs {
        ino,
        version,
        attrs,
    }
}

fn with_xattrs(ino: u64, version: u32, value: &[u8]) -> Record {
    Record::Xattrs {
        ino,
        generation: GENERATION,
        version,
        xattrs: vec![(b"user.a".as_slice().into(), value.into())],
    }
}

fn entries(entries: i64, order: u64) -> Record {
    Record::Entries {
        dir: DIR,
        generation: GENERATION,
        entries,
        subdirectories: 0,
        touched: order * 10,
        order,
    }
}

fn gone(ino: u64, generation: u32) -> Record {
    Record::Gone {
        ino,
        generation,
        is_brief: false,
    }
}

fn target(ino: u64, generation: u32) -> Target {
    Target {
        ino,
        generation,
        kind: Kind::File,
    }
}

impl CoreRecords {
    fn take(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        self.move_to(&mut records);
        records
    }

    /// Adds a record by the method for its kind. `is_apart`: what is known of the inode that ends.
    fn add_any(&mut self, record: Record, is_apart: bool) -> Added {
        match record {
            Record::New { inode, .. } => self.add_new(inode, COST),
            Record::Attrs {
                ino,
                version,
                attrs,
            } => self.add_attrs(ino, version, &attrs, COST),
            Record::Gone {
                ino, generation, ..
            } => self.add_end((ino, generation), is_apart, COST),
            Record::Entries {
                dir,
                generation,
                entries,
                subdirectories,
                touched,
                order,
            } => self.add_entries(
                (dir, generation),
                (entries, subdirectories),
                (order, touched),
            ),
            Record::Xattrs {
                ino,
                generation,
                version,
                mut xattrs,
            } => self.add_xattrs((ino, generation), version, &mut xattrs, is_apart, 1),
            other => self.add(other),
        }
    }
}

#[test]
fn files_that_came_and_went_leave_next_to_nothing() {
    let mut core = CoreRecords::default();
    let name = (DIR, GENERATION);
    for round in 0..1000 {
        let (ino, version) = (7 + round, round as u32 * 2);
        core.add_any(Record::new(inode(ino, attrs(3, 1))), false);
        core.add_name(name, b"a", version, Some(target(ino, 3)));
        core.add_any(entries(1, 2 * round + 1), false);
        core.add_name(name, b"a", version + 1, None);
        core.add_any(entries(-1, 2 * round + 2), false);
        let attrs = changed(ino, 1, attrs(3, 0));
        let is_apart = core.add_any(attrs, false) != Added::Absorbed;
        core.add_any(gone(ino, 3), is_apart);
    }
    let (owed, records) = (core.owed.sum(), core.take());
    // Of two records with one place the earlier one is hidden, now and then.
    assert!(records.len() < 40 && owed < 40 * COST, "{}", records.len());
    let sum = records.iter().map(|record| match record {
        Record::Entries { entries, .. } => *entries,
        _ => 0,
    });
    assert_eq!(sum.sum::<i64>(), 0);
    assert!(core.is_empty());
}

#[test]
fn the_end_of_an_inode_stays_where_more_of_it_may_lie_elsewhere() {
    let mut core = CoreRecords::default();
    core.add_any(Record::new(inode(5, attrs(1, 1))), false);
    assert_eq!(core.add_any(gone(5, 1), true), Added::Brief);
    let is_brief = true;
    let end = Record::Gone {
        ino: 5,
        generation: 1,
        is_brief,
    };
    assert_eq!(core.take(), [end]);
    core.add_any(changed(6, 1, attrs(1, 0)), false);
    assert_eq!(core.add_any(gone(6, 1), true), Added::Absorbed);
    assert_eq!(core.take(), [gone(6, 1)]);
}

#[test]
fn a_name_that_came_and_went_is_told_from_one_that_only_went() {
    let mut core = CoreRecords::default();
    let dir = (DIR, GENERATION);
    core.add_name(dir, b"came", 1, Some(target(5, 1)));
    assert_eq!(core.add_name(dir, b"came", 2, None), Added::Absorbed);
    core.add_name(dir, b"went", 1, None);
    let names = core.take().into_iter().map(|record| match record {
        Record::Name {
            version, to, came, ..
        } => (version, to, came),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        names.collect::<Vec<_>>(),
        [(2, None, true), (1, None, false)]
    );
}

#[test]
fn what_a_record_costs_is_owed_once_and_by_who_owns_it() {
    let mut core = CoreRecords::default();
    let of = |uid| Attrs { uid, ..attrs(1, 1) };
    core.add_any(Record::new(inode(5, of(1000))), false);
    core.add_any(changed(5, 1, of(1000)), false);
    core.add_any(changed(6, 1, of(1001)), false);
    let mut owed: Vec<_> = core.owed.iter().collect();
    owed.sort_unstable();
    let tenant = |uid| TenantId::of(0, uid).number();
    let mut expected = [(tenant(1000), COST), (tenant(1001), COST)];
    expected.sort_unstable();
    assert_eq!(owed, expected);
}

/// Once, each change of an attribute left a copy of all of them, which nobody owed.
#[test]
fn extended_attributes_are_kept_once_and_owed() {
    let mut core = CoreRecords::default();
    let value = [7; 1000];
    let owed_for = |core: &CoreRecords| (core.owed.sum(), core.extra);
    core.add_any(with_xattrs(5, 1, &value), true);
    let (owed, extra) = owed_for(&core);
    assert!(owed > 1000 && owed == extra, "{owed} {extra}");
    for version in 2..500 {
        let added = core.add_any(with_xattrs(5, version, &value), true);
        assert_eq!(added, Added::Absorbed);
    }
    assert_eq!(owed_for(&core), (owed, extra));
    // What another owner sets is owed by that one.
    let mut xattrs = vec![(b"user.a".as_slice().into(), value.as_slice().into())];
    core.add_xattrs((5, GENERATION), 500, &mut xattrs, true, 2);
    assert_eq!(core.owed.iter().collect::<Vec<_>>(), [(2, owed)]);
    assert_eq!(core.take(), [with_xattrs(5, 500, &value)]);
    assert_eq!(owed_for(&core), (0, 0));
    // Those of a new inode go with it, and are owed by who owns it.
    let of = |uid| Attrs { uid, ..attrs(1, 1) };
    core.add_any(Record::new(inode(6, of(1000))), false);
    for version in 1..5 {
        let added = core.add_any(with_xattrs(6, version, &value), false);
        assert_eq!(added, Added::Absorbed);
    }
    core.add_any(changed(6, 5, of(1001)), false);
    let tenant = TenantId::of(0, 1001).number();
    assert_eq!(
        core.owed.iter().collect::<Vec<_>>(),
        [(tenant, COST + owed)]
    );
    assert_eq!(core.add_any(gone(6, GENERATION), false), Added::Brief);
    assert!(core.is_empty());
    assert_eq!(owed_for(&core), (0, 0));
}

#[test]
fn a_new_inode_takes_no_extended_attributes_where_others_may_lie_elsewhere() {
    let mut core = CoreRecords::default();
    core.add_any(Record::new(inode(5, attrs(1, 1))), false);
    let added = core.add_any(with_xattrs(5, 3, b"late"), true);
    assert_ne!(added, Added::Absorbed);
    assert_eq!(
        core.take(),
        [
            Record::new(inode(5, attrs(1, 1))),
            with_xattrs(5, 3, b"late")
        ]
    );
}

#[test]
fn what_was_given_away_before_it_went_is_owed_by_nobody() {
    let mut core = CoreRecords::default();
    let of = |uid| Attrs { uid, ..attrs(1, 1) };
    for ino in 5..1000 {
        core.add_any(Record::new(inode(ino, of(1000))), false);
        core.add_any(changed(ino, 1, of(1001)), false);
        assert_eq!(core.add_any(gone(ino, 1), false), Added::Brief);
    }
    assert_eq!(core.owed.iter().count(), 0);
    assert!(core.is_empty());
}

#[test]
fn records_of_other_things_with_the_same_place_are_kept() {
    let mut core = CoreRecords::default();
    for ino in 2..2000 {
        core.add_any(Record::new(inode(ino, attrs(1, 1))), false);
        // Of another generation: not of the inode that the list has.
        core.add_any(changed(ino, 1, attrs(2, 1)), false);
        core.add_any(gone(ino, 3), false);
    }
    assert_eq!(core.take().len(), 3 * 1998);
}

/// A made up volume of one directory that several cores change.
struct Script {
    random: u64,
    clock: u64,
    /// The next number of an inode.
    next: u64,
    names: BTreeMap<u64, (u64, u32)>,
    /// By number: generation and version of its attributes, and whether it is apart.
    inodes: BTreeMap<u64, (u32, u32, bool)>,
    name_versions: BTreeMap<u64, u32>,
    cores: [CoreRecords; 3],
    /// All that was recorded.
    all: Vec<Record>,
}

impl Script {
    fn below(&mut self, most: u64) -> u64 {
        self.random = (self.random)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % most
    }

    fn record(&mut self, record: Record, is_apart: bool) -> Added {
        self.all.push(record.clone());
        let core = self.below(3) as usize;
        self.cores[core].add_any(record, is_apart)
    }

    fn name(&mut self, name: u64, to: Option<(u64, u32)>) {
        let version = self.name_versions.entry(name).or_default();
        *version += 1;
        let version = *version;
        let to = to.map(|(ino, generation)| target(ino, generation));
        let bytes = format!("name {name}").into_bytes();
        self.all.push(Record::Name {
            dir: DIR,
            generation: GENERATION,
            name: bytes.clone().into(),
            version,
            to,
            came: false,
        });
        let core = self.below(3) as usize;
        self.cores[core].add_name((DIR, GENERATION), &bytes, version, to);
    }

    fn count(&mut self, delta: i64) {
        self.clock += 1;
        let record = entries(delta, self.clock);
        self.record(record, true);
    }

    fn change(&mut self, ino: u64, nlink: u32) {
        let perm = self.below(0o777) as u16;
        let (generation, version, _) = self.inodes.get_mut(&ino).expect("an inode");
        *version += 1;
        let attrs = Attrs {
            perm,
            ..attrs(*generation, nlink)
        };
        let record = changed(ino, *version, attrs);
        let is_taken = self.record(record, true) == Added::Absorbed;
        self.inodes.get_mut(&ino).expect("an inode").2 |= !is_taken;
    }

    fn set_xattrs(&mut self, ino: u64) {
        // Attributes go with them, and have their version.
        self.change(ino, 1);
        let value = self.below(1 << 20).to_le_bytes();
        let (_, version, is_apart) = self.inodes[&ino];
        let record = with_xattrs(ino, version, &value);
        let is_taken = self.record(record, is_apart) == Added::Absorbed;
        self.inodes.get_mut(&ino).expect("an inode").2 |= !is_taken;
    }

    /// An operation.
    fn step(&mut self) {
        let generation = 1;
        let name = self.below(6);
        match (self.names.get(&name).copied(), self.below(4)) {
            (None, _) => {
                let ino = self.next;
                self.next += 1;
                self.inodes.insert(ino, (generation, 0, false));
                self.record(Record::new(inode(ino, attrs(generation, 1))), false);
                self.name(name, Some((ino, generation)));
                self.count(1);
                self.names.insert(name, (ino, generation));
            }
            (Some((ino, _)), 0) => self.change(ino, 1),
            (Some((ino, of)), 1) => {
                self.name(name, None);
                self.names.remove(&name);
                self.count(-1);
                self.change(ino, 0);
                let (.., is_apart) = self.inodes.remove(&ino).expect("an inode");
                self.record(gone(ino, of), is_apart);
            }
            (Some((ino, _)), 2) => self.set_xattrs(ino),
            (Some(to), _) => {
                let other = self.below(6);
                if !self.names.contains_key(&other) {
                    self.name(name, None);
                    self.name(other, Some(to));
                    self.names.remove(&name);
                    self.names.insert(other, to);
                }
            }
        }
    }
}

#[test]
fn a_backend_comes_to_the_same_state_from_what_is_left_of_the_records() {
    let mut fewer = 0;
    for seed in 0..200 {
        let mut script = Script {
            random: seed,
            clock: 0,
            next: 2,
            names: BTreeMap::new(),
            inodes: BTreeMap::new(),
            name_versions: BTreeMap::new(),
            cores: Default::default(),
            all: Vec::new(),
        };
        let backends = [TestBackend::new(), TestBackend::new()];
        let root = Attrs::new(GENERATION, Kind::Directory, 0o755);
        for backend in &backends {
            let root = Record::new(inode(DIR, root));
            backend.commit(1, vec![root]).expect("committed");
        }
        for epoch in 2..6 {
            for _ in 0..script.below(60) {
                script.step();
            }
            let left: Vec<_> = script
                .cores
                .iter_mut()
                .flat_map(CoreRecords::take)
                .collect();
            let all = std::mem::take(&mut script.all);
            fewer += all.len() - left.len();
            backends[0].commit(epoch, all).expect("committed");
            backends[1].commit(epoch, left).expect("committed");
            let state = |backend: &TestBackend| {
                let inodes = backend.load_inodes(0..10_000).expect("loaded");
                let names = (0..6).map(|name| {
                    let name = format!("name {name}");
                    backend.load_entry(DIR, name.as_bytes()).expect("loaded")
                });
                (inodes, names.collect::<Vec<_>>())
            };
            assert_eq!(state(&backends[0]), state(&backends[1]), "seed {seed}");
        }
    }
    assert!(fewer > 5000, "{fewer}");
}

#[test]
fn records_of_the_attributes_of_an_inode_are_told_from_all_others() {
    let untouched = |ino| Record::Untouched {
        ino,
        generation: GENERATION,
        order: 1,
    };
    let of_others = [
        changed(8, 1, attrs(GENERATION, 1)),
        untouched(8),
        with_xattrs(7, 1, b"v"),
        entries(1, 1),
        gone(7, GENERATION),
    ];
    for other in of_others {
        let mut core = CoreRecords::default();
        assert!(core.has_only_attrs_of(7), "there are none");
        core.add_attrs(7, 1, &attrs(GENERATION, 1), COST);
        core.add(untouched(7));
        assert!(core.has_only_attrs_of(7) && !core.has_only_attrs_of(8));
        let what = format!("{other:?}");
        core.add(other);
        assert!(!core.has_only_attrs_of(7), "{what}");
        core.take();
        assert!(core.has_only_attrs_of(7));
    }
    let mut core = CoreRecords::default();
    (0..FEW).for_each(|_| assert_ne!(core.add(untouched(7)), Added::Absorbed));
    assert!(core.has_only_attrs_of(7));
    core.add(untouched(7));
    assert!(!core.has_only_attrs_of(7), "so many are not looked at");
}
