//! Runs the plan: windows of one call in several layouts, long ones in one, and the allow-list's
//! verdict on each.

use super::allow_list::Rule;
use super::case::{Case, LONG};
use super::opts::{Layout, Opts, Setting};
use super::plan::{Extent, Plan};
use super::run::batches;
use super::source::Source;
use super::verdict::Verdict;
use super::workers::spread;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Layouts of windows of one call: other addresses, another maker, another order, another setting.
const LAYOUTS: [Layout; 3] = [
    Layout {
        seed: 1,
        maker: 0,
        first: 0,
        setting: Setting {
            is_user: true,
            has_quotas: true,
            has_heat: false,
        },
    },
    Layout {
        seed: 2,
        maker: 1,
        first: 1,
        setting: Setting {
            is_user: false,
            has_quotas: false,
            has_heat: false,
        },
    },
    Layout {
        seed: 3,
        maker: 0,
        first: 1,
        setting: Setting {
            is_user: true,
            has_quotas: true,
            has_heat: true,
        },
    },
];

/// Runs the plan in `workers` processes and returns the verdicts. The caller has no other thread.
///
/// # Errors
/// The library gives another result than the model.
pub fn verdicts(
    workers: usize,
    plan: &Plan,
    extent: Extent,
    rules: &[Rule],
    source: &mut Source,
) -> Result<Vec<Verdict>, String> {
    let long: Vec<_> = plan.cases.iter().copied().step_by(extent.long).collect();
    let opts = |count, layout| Opts {
        count,
        layout,
        is_lean: false,
    };
    // The longest batches first, so that no worker is left with one at the end.
    let mut all = batches(&long, opts(LONG, LAYOUTS[0]));
    for &layout in &LAYOUTS[..extent.layouts] {
        all.extend(batches(&plan.cases, opts(1, layout)));
    }
    let mut worst: HashMap<(usize, Case), Verdict> = HashMap::new();
    spread(&all, workers, |_, _, mut verdict| {
        if !verdict.is_free() {
            verdict.rule = explanation(&verdict, rules, source);
        }
        match worst.entry((verdict.window, verdict.case)) {
            Entry::Occupied(mut known) => known.get_mut().worsen(verdict),
            Entry::Vacant(new) => drop(new.insert(verdict)),
        }
    })?;
    let mut verdicts: Vec<Verdict> = worst.into_values().collect();
    verdicts.sort_unstable_by_key(|verdict| (verdict.window, verdict.case));
    Ok(verdicts)
}

/// Returns the rules that together explain the conflicting lines, if no more are left than the case
/// may have: in a long window lines of reclamation always occur.
fn explanation(verdict: &Verdict, rules: &[Rule], source: &mut Source) -> Option<String> {
    let about: Vec<&Rule> = rules
        .iter()
        .filter(|rule| rule.is_about(&verdict.case))
        .collect();
    let (mut names, mut left): (Vec<&str>, usize) = (Vec::new(), 0);
    for conflict in &verdict.conflicts {
        let stacks = [0, 1].map(|n| source.stack(&conflict.sides[n]));
        let rule = about.iter().find(|rule| rule.explains(conflict, &stacks));
        match rule {
            Some(rule) => names.push(&rule.name),
            None => left += 1,
        }
    }
    names.sort_unstable();
    names.dedup();
    let is_enough = !names.is_empty() && left <= verdict.case.budget(verdict.window);
    is_enough.then(|| names.join(", "))
}
