//! Running one script on the model and on something else.

use std::fmt;

use crate::agree::Numbers;
use crate::model::Model;
use crate::op::Op;
use crate::outcome::Outcome;
use crate::system::{OBSERVER, PROCESSES, System};
use crate::tree::Tree;

/// The first disagreement of a script.
#[derive(Debug)]
pub struct Difference {
    /// Index of the step after which the systems differ.
    pub step: usize,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.step, self.what)
    }
}

/// Runs a script on the model and on `system`. Compares every outcome and, every `tree_every` steps
/// and at the end, the trees (never for 0).
pub fn compare(
    system: &mut dyn System,
    script: &[(usize, Op)],
    tree_every: usize,
) -> Result<(), Difference> {
    let mut model = beside(system);
    let mut numbers = Numbers::default();
    for (step, (p, op)) in script.iter().enumerate() {
        compare_call(&mut model, system, &mut numbers, (*p, op))
            .map_err(|what| Difference { step, what })?;
        let last = step + 1 == script.len();
        if tree_every > 0 && (last || step % tree_every == tree_every - 1) {
            compare_trees(&mut model, system).map_err(|what| Difference {
                step,
                what: format!("tree after process {p}: {op:?}\n{what}"),
            })?;
        }
    }
    Ok(())
}

/// Returns a model in the initial state of `system`.
pub(crate) fn beside(system: &dyn System) -> Model {
    let mut model = Model::new();
    model.protects_hardlinks = system.protects_hardlinks();
    model.is_mounted = system.is_mounted();
    for (uid, gid, groups) in PROCESSES {
        model.add_process(uid, gid, groups);
    }
    model
}

/// Applies one operation of process `p` to both.
pub(crate) fn compare_call(
    model: &mut Model,
    system: &mut dyn System,
    numbers: &mut Numbers,
    (p, op): (usize, &Op),
) -> Result<(), String> {
    let expected = model.apply(p, op);
    if expected == Outcome::Unspecified {
        return Ok(());
    }
    let found = system.apply(p, op);
    match expected.agrees(&found, numbers) {
        true => Ok(()),
        false => Err(format!(
            "process {p}: {op:?}\n  expected {expected:?}\n  found    {found:?}"
        )),
    }
}

/// Returns a script as Rust source, one step a line.
pub fn listing(script: &[(usize, Op)]) -> String {
    let lines = script
        .iter()
        .map(|(p, op)| format!("    ({p}, {}),\n", source(op)));
    format!("[\n{}]", lines.collect::<String>())
}

/// Variants print without their path; put it back.
pub(crate) fn source(op: &Op) -> String {
    let text = format!("{op:?}");
    let text = ["Path(", "Link(", "Fd("]
        .iter()
        .fold(text, |text, variant| {
            text.replace(
                &format!("target: {variant}"),
                &format!("target: Target::{variant}"),
            )
        });
    format!("Op::{text}")
}

/// Compares the whole trees of the model and of `system`.
pub fn compare_trees(model: &mut Model, system: &mut dyn System) -> Result<(), String> {
    let (found, ops) = Tree::read(system, OBSERVER)?;
    if let Some(difference) = model.snapshot().difference(&found) {
        return Err(difference);
    }
    for op in ops {
        model.apply(OBSERVER, &op);
    }
    Ok(())
}
