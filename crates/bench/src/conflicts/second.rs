//! Recorder and trace side by side.

use super::case::Case;
use super::commute::Errnos;
use super::cores::Cores;
use super::lackey::{self, LEAN};
use super::overlap::overlap;
use super::report::row;
use super::run::{batches, run};
use super::window::Recording;
use crate::row::Row;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

/// The share of cases on which the two must agree.
pub const LEAST: f64 = 0.999;
/// Parts of the list that are traced at once, each by a process of its own.
const AT_ONCE: usize = 2;

/// On which cases the two agree.
pub struct Agreement {
    total: usize,
    /// Cases with the lines in conflict of the recorder and of the trace.
    different: Vec<(Case, usize, usize)>,
    /// Cases that both find free.
    free: usize,
}

/// Asks both about every case.
///
/// # Errors
/// Valgrind is missing, or a program fails.
pub fn compare(
    cores: &Cores,
    program: &Path,
    cases: &[(Case, Errnos)],
) -> Result<Agreement, String> {
    let mut ours = HashMap::new();
    for batch in batches(cases, LEAN) {
        run(cores, &batch, Recording, |n, [a, b]| {
            ours.insert(batch.cases[n].0, overlap(&a, &b).len());
        })?;
    }
    let part = cases.len().div_ceil(AT_ONCE).max(1);
    let theirs: Vec<Result<HashMap<Case, usize>, String>> = std::thread::scope(|scope| {
        let each = cases.chunks(part).enumerate();
        let each = each.map(|(n, part)| scope.spawn(move || lackey::check(program, part, n)));
        let each: Vec<_> = each.collect();
        let joined = each.into_iter().map(|part| part.join());
        joined
            .map(|part| part.unwrap_or_else(|_| Err("a reader died".into())))
            .collect()
    });
    let mut agreement = Agreement {
        total: 0,
        different: Vec::new(),
        free: 0,
    };
    for part in theirs {
        for (case, theirs) in part? {
            let ours = ours.get(&case).copied().unwrap_or_default();
            agreement.total += 1;
            if (ours == 0) != (theirs == 0) {
                agreement.different.push((case, ours, theirs));
            } else if ours == 0 {
                agreement.free += 1;
            }
        }
    }
    agreement.different.sort_unstable_by_key(|it| it.0);
    Ok(agreement)
}

impl Agreement {
    /// Cases on which the two agree, of all.
    pub fn share(&self) -> f64 {
        1.0 - self.different.len() as f64 / self.total.max(1) as f64
    }

    /// The share, and the cases on which they do not agree.
    pub fn text(&self, commute: usize) -> String {
        let agree = self.total - self.different.len();
        let mut out = format!(
            "lackey: {} of {commute} commuting cases asked, {agree} verdicts equal ({:.2} %), \
             {} of them free\n",
            self.total,
            self.share() * 100.0,
            self.free
        );
        for (case, ours, theirs) in &self.different {
            let _ = writeln!(out, "  {case}: recorder {ours} lines, trace {theirs}");
        }
        out
    }

    /// The share as a row.
    pub fn rows(&self) -> Vec<Row> {
        let total = self.total as f64;
        vec![
            row("lackey", "agreement_share", self.share(), "ratio"),
            row("lackey", "cases", total, "1"),
        ]
    }
}
