//! Every planned case in both windows and several layouts, and what the allow-list says.

use super::allow_list::Rule;
use super::case::LONG;
use super::cores::Cores;
use super::manner::{Layout, Manner};
use super::overlap::overlap;
use super::plan::{Extent, Plan};
use super::run::run;
use super::source::Source;
use super::verdict::Verdict;
use super::window::Recording;
use std::collections::HashMap;

/// Layouts for windows of one call: other addresses, another maker, another order.
const LAYOUTS: [Layout; 3] = [
    Layout {
        seed: 1,
        maker: 0,
        first: 0,
    },
    Layout {
        seed: 2,
        maker: 1,
        first: 1,
    },
    Layout {
        seed: 3,
        maker: 0,
        first: 1,
    },
];

/// Runs what is planned.
///
/// # Errors
/// The library does not answer what the model does.
pub fn judge(
    cores: &Cores,
    plan: &Plan,
    extent: Extent,
    rules: &[Rule],
    source: &mut Source,
) -> Result<Vec<Verdict>, String> {
    let mut verdicts: Vec<Verdict> = Vec::new();
    let long: Vec<_> = plan.cases.iter().copied().step_by(extent.long).collect();
    let short = &LAYOUTS[..extent.layouts];
    for (window, cases, layouts) in [(1, &plan.cases, short), (LONG, &long, &LAYOUTS[..1])] {
        let mut known = HashMap::new();
        for &layout in layouts {
            let manner = Manner {
                count: window,
                layout,
                is_lean: false,
            };
            run(cores, cases, manner, Recording, |case, [a, b]| {
                let verdict = Verdict::new(case, window, overlap(&a, &b));
                let at = *known.entry(verdict.case).or_insert(verdicts.len());
                match verdicts.get_mut(at) {
                    Some(worst) => worst.worsen(verdict),
                    None => verdicts.push(verdict),
                }
            })?;
            let took = format!("{} cases, {window} calls a side, {layout:?}", cases.len());
            eprintln!("{took}");
        }
    }
    for verdict in verdicts.iter_mut().filter(|verdict| !verdict.is_free()) {
        verdict.rule = explanation(verdict, rules, source);
    }
    Ok(verdicts)
}

/// The rules that together explain every line in conflict, if they do.
fn explanation(verdict: &Verdict, rules: &[Rule], source: &mut Source) -> Option<String> {
    let about: Vec<&Rule> = rules
        .iter()
        .filter(|rule| rule.is_about(&verdict.case))
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for conflict in &verdict.conflicts {
        let stacks = [0, 1].map(|n| source.stack(&conflict.sides[n]));
        names.push(&about.iter().find(|rule| rule.explains(&stacks))?.name);
    }
    names.sort_unstable();
    names.dedup();
    Some(names.join(", "))
}
