//! The library against the model where quotas are on: at limits that nobody reaches, at hard
//! limits that are reached all the time, and where all kinds of limits are set, changed and
//! reached.

use super::keeper::{Kept, books};
use super::{ABILITIES, TREE_EVERY, random_scripts, run_scripts};
use hearth_model::strategy::quota_script;
use hearth_model::{
    Change, Difference, Keeper, Met, Op, Payer, PayerKind, Reason, Resource, Rule, Step, compare,
    compare_kept, listing_of_steps,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Hard limits of one payer: inodes and pages.
fn hard(payer: Payer, inodes: u64, pages: u64) -> [Rule; 2] {
    let limit = |resource, most| Rule::Limit {
        payer,
        resource,
        hard: Change::To(most),
        soft: Change::Keep,
    };
    [
        limit(Resource::Inodes, inodes),
        limit(Resource::Bytes, pages * 4096),
    ]
}

/// Limits that random scripts run into in their own ways: everything, owners, a project.
fn small() -> [Vec<Rule>; 3] {
    [
        hard(Payer::Volume, 4, 3).into(),
        [
            hard(Payer::User(1000), 1, 1),
            hard(Payer::Group(1000), 1, 1),
            hard(Payer::Group(2000), 0, 0),
        ]
        .concat(),
        [
            hard(Payer::Volume, 6, 5),
            hard(Payer::User(1000), 2, 2),
            hard(Payer::Project(7), 1, 1),
        ]
        .concat(),
    ]
}

fn unreached() -> Vec<Rule> {
    let users = [1000, 1001, 2000].map(Payer::User);
    let groups = [1000, 1001, 2000].map(Payer::Group);
    let all = users.into_iter().chain(groups).chain([Payer::Project(7)]);
    all.flat_map(|payer| hard(payer, 1 << 30, 1 << 30))
        .collect()
}

/// Rules and then calls.
fn steps(rules: &[Rule], calls: &[(usize, Op)]) -> Vec<Step> {
    let rules = rules.iter().map(|rule| Step::Rule(*rule));
    let calls = calls.iter().map(|(p, op)| Step::Call(*p, op.clone()));
    rules.chain(calls).collect()
}

fn compare_with(rules: &[Rule], calls: &[(usize, Op)]) -> Result<BTreeMap<Met, u64>, Difference> {
    compare_kept(&mut Kept::new(), books(), &steps(rules, calls), TREE_EVERY)
}

/// Adds what one script met.
fn add(sum: &RefCell<BTreeMap<Met, u64>>, met: BTreeMap<Met, u64>) {
    for (met, times) in met {
        *sum.borrow_mut().entry(met).or_default() += times;
    }
}

#[test]
fn small_limits_refuse_what_the_model_says_over_a_hundred_thousand_operations() {
    let mut operations = 0;
    for limits in small() {
        let met = RefCell::new(BTreeMap::new());
        let done = random_scripts(600, |calls| {
            add(&met, compare_with(&limits, calls)?);
            Ok(())
        });
        let met = met.take();
        println!("{met:?} in {done} operations");
        let refusals = met
            .iter()
            .filter(|(met, _)| matches!(met, Met::Refusal(..)));
        let refused: u64 = refusals.map(|(_, times)| times).sum();
        assert!(refused > 20, "{refused} refusals in {done} operations");
        operations += done;
    }
    assert!(operations >= 100_000, "only {operations} operations");
}

#[test]
fn limits_that_nobody_reaches_change_nothing() {
    random_scripts(300, |calls| {
        let mut kept = Kept::new();
        for rule in unreached() {
            assert!(kept.rule(&rule), "{rule:?}");
        }
        // The model keeps no quotas: it has nothing to look for.
        compare(&mut kept, calls, TREE_EVERY)?;
        let check = |what| Difference {
            step: calls.len(),
            what,
        };
        kept.check().map_err(check)?;
        match kept.volume().quota().latest_event() {
            0 => Ok(()),
            events => Err(check(format!("{events} events"))),
        }
    });
}

#[test]
fn limits_of_all_kinds_that_are_set_changed_and_reached_do_what_the_model_says() {
    let sum = RefCell::new(BTreeMap::new());
    let scripts = quota_script(ABILITIES, books(), 1..130);
    let check = |steps: &[Step]| {
        let met = compare_kept(&mut Kept::new(), books(), steps, TREE_EVERY)?;
        add(&sum, met);
        Ok(())
    };
    let operations = run_scripts(3000, scripts, check, listing_of_steps);
    let sum = sum.take();
    println!("{operations} operations met");
    for (met, times) in &sum {
        println!("{times:8} {met:?}");
    }
    for met in all_there_is_to_meet() {
        assert!(sum.contains_key(&met), "no script met {met:?}");
    }
}

fn all_there_is_to_meet() -> Vec<Met> {
    let mut all = vec![
        Met::Default,
        Met::BelowUse,
        Met::Partly,
        Met::NotEnforced,
        Met::IdZero,
        Met::OtherProject,
    ];
    for resource in Resource::ALL {
        all.extend([Met::Crossing(resource), Met::Return(resource)]);
        let volume = (PayerKind::Volume, Reason::Hard);
        let kinds = [PayerKind::User, PayerKind::Group, PayerKind::Project];
        let owners = kinds.map(|kind| [(kind, Reason::Hard), (kind, Reason::GraceEnded)]);
        let refusals = owners.into_iter().flatten().chain([volume]);
        all.extend(refusals.map(|(kind, reason)| Met::Refusal(kind, resource, reason)));
    }
    all
}

/// So that agreement means something: scripts are refused what the limits say.
#[test]
fn a_small_limit_refuses_the_file_that_is_too_many() {
    use hearth_model::{CWD, Outcome, System, bytes};
    let limits = hard(Payer::Volume, 2, 1);
    let make = |name| Op::MakeDir {
        dirfd: CWD,
        path: bytes(name),
        mode: 0o755,
    };
    let calls = [(0, make("/a")), (0, make("/b"))];
    let met = compare_with(&limits, &calls).expect("one fits");
    assert_eq!(met.len(), 1, "{met:?}");
    let mut kept = Kept::new();
    for rule in &limits {
        assert!(kept.rule(rule), "{rule:?}");
    }
    let differs = compare(&mut kept, &calls, 1);
    assert!(differs.is_err(), "a model without limits does not know");
    let refused = kept.apply(0, &make("/c"));
    assert_eq!(refused, Outcome::Error(libc::ENOSPC));
}
