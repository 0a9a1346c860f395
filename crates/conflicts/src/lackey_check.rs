//! The lackey check: verdicts of the recorder and of a memory trace, side by side.

use super::case::Case;
use super::commute::Errnos;
use super::lackey_trace::{self, LEAN};
use super::report::row;
use super::run::batches;
use super::workers::spread;
use hearth_bench::row::Row;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The least share of cases on which the two must agree.
pub const LEAST: f64 = 0.999;
/// Cases in one run of valgrind.
const AT_ONCE: usize = 64;
/// Cases in conflict that are traced at least, if there are that many.
const CONFLICTING: usize = 400;

/// The agreement of the two.
pub struct Agreement {
    total: usize,
    /// Cases with the lines in conflict of the recorder and of the trace.
    different: Vec<(Case, usize, usize)>,
    /// Cases that both find free.
    free: usize,
}

/// Records every case, and traces one of `every`, and as many more of those in conflict as make
/// [`CONFLICTING`].
///
/// # Errors
/// Valgrind is missing, or a program fails.
pub fn compare(
    workers: usize,
    program: &Path,
    cases: &[(Case, [Errnos; 2])],
    every: usize,
) -> Result<Agreement, String> {
    let mut ours = HashMap::new();
    spread(&batches(cases, LEAN), workers, |_, _, verdict| {
        ours.insert(verdict.case, verdict.lines);
    })?;
    let asked = sample(cases, &ours, every);
    let theirs = traced(workers, program, &asked)?;
    let mut agreement = Agreement {
        total: 0,
        different: Vec::new(),
        free: 0,
    };
    for (case, theirs) in theirs {
        let ours = ours.get(&case).copied().unwrap_or_default();
        agreement.total += 1;
        if (ours == 0) != (theirs == 0) {
            agreement.different.push((case, ours, theirs));
        } else if ours == 0 {
            agreement.free += 1;
        }
    }
    agreement.different.sort_unstable_by_key(|it| it.0);
    Ok(agreement)
}

/// Returns the cases to trace, in order.
fn sample(
    cases: &[(Case, [Errnos; 2])],
    ours: &HashMap<Case, usize>,
    every: usize,
) -> Vec<(Case, [Errnos; 2])> {
    let is_free = |at: &usize| ours.get(&cases[*at].0) == Some(&0);
    let mut asked: BTreeSet<usize> = (0..cases.len()).step_by(every).collect();
    let conflicting: Vec<usize> = (0..cases.len()).filter(|at| !is_free(at)).collect();
    let step = conflicting.len().div_ceil(CONFLICTING).max(1);
    asked.extend(conflicting.into_iter().step_by(step));
    asked.into_iter().map(|at| cases[at]).collect()
}

/// Returns the conflicting lines of each case in the traces, `workers` traces at a time.
fn traced(
    workers: usize,
    program: &Path,
    cases: &[(Case, [Errnos; 2])],
) -> Result<HashMap<Case, usize>, String> {
    let parts: Vec<_> = cases.chunks(AT_ONCE).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(HashMap::new()));
    let work = || {
        loop {
            // Relaxed: a counter by itself.
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(n) else {
                return Ok(());
            };
            let counts = lackey_trace::check(program, part, n)?;
            let mut found = found.lock().expect("nobody panics with the lock");
            found.extend(counts);
            eprintln!("{} of {} cases traced", found.len(), cases.len());
        }
    };
    let ended: Result<(), String> = std::thread::scope(|scope| {
        let each: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut joined = each.into_iter().map(|reader| reader.join());
        joined.try_for_each(|end| end.unwrap_or_else(|_| Err("a reader died".into())))
    });
    ended?;
    Ok(found.into_inner().expect("nobody panicked with the lock"))
}

impl Agreement {
    /// Returns the share of cases on which the two agree.
    pub fn share(&self) -> f64 {
        1.0 - self.different.len() as f64 / self.total.max(1) as f64
    }

    /// Returns the share, and the cases on which they disagree.
    pub fn text(&self, commute: usize) -> String {
        let agree = self.total - self.different.len();
        let mut out = format!(
            "lackey: {} of {commute} commuting cases asked, {agree} verdicts equal ({:.2} %), \
             {} of them free, {} in conflict\n",
            self.total,
            self.share() * 100.0,
            self.free,
            agree - self.free
        );
        for (case, ours, theirs) in &self.different {
            let _ = writeln!(out, "  {case}: recorder {ours} lines, trace {theirs}");
        }
        out
    }

    /// Returns the share as rows.
    pub fn rows(&self) -> Vec<Row> {
        let total = self.total as f64;
        vec![
            row("lackey", "agreement_share", self.share(), "ratio"),
            row("lackey", "cases", total, "1"),
            row("lackey", "free_cases", self.free as f64, "1"),
        ]
    }
}
