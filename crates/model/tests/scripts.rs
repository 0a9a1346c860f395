//! The random scripts reach success and failure of every operation, and the two ways to read the
//! model's tree agree.

use std::collections::BTreeMap;

use hearth_model::strategy::{Abilities, script};
use hearth_model::{Kind, Model, OBSERVER, Op, Outcome, PROCESSES, StatX, Tree};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

const SCRIPTS: usize = 1500;

/// Operations that cannot fail.
const SURE: [&str; 4] = ["Umask", "SetCredentials", "Fork", "Exit"];

fn fresh() -> Model {
    let mut model = Model::new();
    for (uid, gid, groups) in PROCESSES {
        model.add_process(uid, gid, groups);
    }
    model
}

fn name(op: &Op) -> String {
    let text = format!("{op:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

fn scripts() -> impl Iterator<Item = Vec<(usize, Op)>> {
    let mut runner = TestRunner::deterministic();
    let strategy = script(
        Abilities {
            ranges: true,
            projects: true,
            direct: true,
        },
        1..100,
    );
    (0..SCRIPTS).map(move |_| strategy.new_tree(&mut runner).expect("a script").current())
}

#[test]
fn scripts_reach_success_and_failure_of_every_operation() {
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for steps in scripts() {
        let mut model = fresh();
        for (p, op) in steps {
            let kind = match model.apply(p, &op) {
                Outcome::Error(_) => 1,
                Outcome::Unspecified => 2,
                _ => 0,
            };
            counts.entry(name(&op)).or_default()[kind] += 1;
        }
    }
    for (op, [good, bad, free]) in &counts {
        println!("{op:16} {good:6} succeeded {bad:6} failed {free:6} unspecified");
    }
    assert_eq!(
        counts.len(),
        63,
        "an operation is missing from the scripts: {counts:?}"
    );
    for (op, [good, bad, _]) in counts {
        assert!(good >= 20, "{op} succeeded only {good} times");
        assert!(
            bad >= 5 || SURE.contains(&op.as_str()),
            "{op} failed only {bad} times"
        );
    }
}

#[test]
fn scripts_ask_statx_of_every_attribute_and_of_the_birth_of_every_kind() {
    let mut attributes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut births: BTreeMap<Kind, u64> = BTreeMap::new();
    for steps in scripts() {
        let mut model = fresh();
        for (p, op) in steps {
            let Outcome::StatX(told) = model.apply(p, &op) else {
                continue;
            };
            let bits = (0..64).map(|bit| 1 << bit);
            for bit in bits.filter(|bit| told.attributes & bit != 0) {
                *attributes.entry(bit).or_default() += 1;
            }
            if told.mask & libc::STATX_BTIME != 0 {
                *births.entry(told.attr.kind).or_default() += 1;
            }
        }
    }
    println!("attributes {attributes:?}, births {births:?}");
    let told = attributes.keys().fold(0, |all, bit| all | bit);
    assert_eq!(told, StatX::ATTRIBUTES, "{attributes:?}");
    assert_eq!(births.len(), 7, "a kind is missing: {births:?}");
    for times in attributes.values().chain(births.values()) {
        assert!(*times >= 5, "{attributes:?} {births:?}");
    }
}

#[test]
fn the_snapshot_equals_a_walk_of_the_tree() {
    for steps in scripts().take(300) {
        let mut model = fresh();
        for (p, op) in steps {
            // Pages that count either way would stop the walk's SEEK_DATA.
            if !matches!(op, Op::Allocate { .. } | Op::Copy { .. }) {
                model.apply(p, &op);
            }
        }
        let snapshot = model.snapshot();
        // The very last page of the largest file is not searched for data.
        if snapshot
            .entries
            .values()
            .any(|entry| entry.attr.size > i64::MAX as u64 - 4096)
        {
            continue;
        }
        let (walked, _) = Tree::read(&mut model, OBSERVER).unwrap();
        assert_eq!(snapshot.difference(&walked), None);
    }
}
