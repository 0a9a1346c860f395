//! Comparing with a system that has quotas.

use std::collections::{BTreeMap, BTreeSet};

use crate::agree::Numbers;
use crate::compare::{Difference, beside, compare_call, compare_trees, source};
use crate::model::Model;
use crate::op::Op;
use crate::payer::Place;
use crate::quota::{Ledger, Met, Quota};
use crate::rule::{Rule, Step};
use crate::system::{OBSERVER, System};

/// A system that has quotas.
pub trait Keeper: System {
    /// Applies a rule; returns false if it is refused.
    fn rule(&mut self, rule: &Rule) -> bool;

    /// Returns its report.
    fn ledger(&self) -> Ledger;

    /// Returns how a walk of everything differs from the report.
    fn check(&self) -> Result<(), String>;
}

/// Runs a script on `keeper` and on the model, with the initial quota state `quota`. Compares every
/// outcome. Compares the reports, and the trees except the last time, every `every` steps, at the
/// end, and after all processes have ended. Returns the events met.
pub fn compare_kept<K: Keeper>(
    keeper: &mut K,
    quota: Quota,
    script: &[Step],
    every: usize,
) -> Result<BTreeMap<Met, u64>, Difference> {
    let mut model = beside(&*keeper);
    model.quota = Some(quota);
    let mut numbers = Numbers::default();
    for (step, what) in script.iter().enumerate() {
        let differ = |what: String| Difference { step, what };
        match what {
            Step::Call(p, op) => {
                compare_call(&mut model, keeper, &mut numbers, (*p, op)).map_err(differ)?;
            }
            Step::Rule(rule) => {
                let (expected, found) = (model.rule(rule), keeper.rule(rule));
                if expected != found {
                    let what = format!("{rule:?}: expected {expected}, found {found}");
                    return Err(differ(what));
                }
            }
        }
        if step % every == every - 1 || step + 1 == script.len() {
            compare_trees(&mut model, keeper).map_err(differ)?;
            compare_ledgers(&model, &*keeper).map_err(differ)?;
        }
    }
    let end = |what: String| Difference {
        step: script.len(),
        what: format!("when all have ended: {what}"),
    };
    for p in (0..model.processes.len()).filter(|p| *p != OBSERVER) {
        compare_call(&mut model, keeper, &mut numbers, (p, &Op::Exit)).map_err(end)?;
    }
    compare_ledgers(&model, &*keeper).map_err(end)?;
    let quota = model.quota.take();
    Ok(quota.map_or_else(BTreeMap::new, |quota| quota.met().clone()))
}

/// Returns a script as Rust source, one step a line.
pub fn listing_of_steps(script: &[Step]) -> String {
    let line = |step: &Step| match step {
        Step::Call(p, op) => format!("    Step::Call({p}, {}),\n", source(op)),
        Step::Rule(rule) => format!("    Step::Rule(Rule::{rule:?}),\n"),
    };
    format!("[\n{}]", script.iter().map(line).collect::<String>())
}

fn compare_ledgers(model: &Model, keeper: &impl Keeper) -> Result<(), String> {
    keeper.check()?;
    let (expected, found) = (model.ledger(), keeper.ledger());
    let places: BTreeSet<&Place> = expected.keys().chain(found.keys()).collect();
    let differ = places
        .into_iter()
        .filter(|place| expected.get(*place) != found.get(*place));
    let lines: Vec<String> = differ
        .map(|place| {
            let (a, b) = (expected.get(place), found.get(place));
            format!("{place:?}:\n  expected {a:?}\n  found    {b:?}")
        })
        .collect();
    match lines.is_empty() {
        true => Ok(()),
        false => Err(format!("ledger:\n{}", lines.join("\n"))),
    }
}
