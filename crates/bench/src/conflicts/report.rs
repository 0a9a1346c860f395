//! What the runner prints.

use super::allowed;
use super::case::Case;
use super::run::Verdict;
use super::source::Source;
use super::verb::Verb;
use crate::row::Row;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Sums over verdicts.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    total: u32,
    free: u32,
    allowed: u32,
}

impl Sum {
    fn add(&mut self, verdict: &Verdict) {
        self.total += 1;
        if verdict.is_free() {
            self.free += 1;
        } else if allowed::reason(&verdict.case).is_some() {
            self.allowed += 1;
        }
    }

    fn share(self) -> f64 {
        if self.total == 0 {
            1.0
        } else {
            f64::from(self.free) / f64::from(self.total)
        }
    }
}

/// The matrix of verbs, the sums and the conflicts by place in the source.
pub fn text(verdicts: &[Verdict], source: &mut Source, verbose: bool) -> String {
    let mut out = matrix(verdicts);
    for (name, sum) in sums(verdicts) {
        let _ = writeln!(
            out,
            "{name:<28} {:4} of {:4} free ({:.1} %), {} more allowed",
            sum.free,
            sum.total,
            sum.share() * 100.0,
            sum.allowed
        );
    }
    out.push_str(&by_source(verdicts, source, verbose));
    out
}

/// The same sums as rows.
pub fn rows(verdicts: &[Verdict]) -> Vec<Row> {
    let row = |name: &str, metric, value, unit| Row {
        bench: "conflicts",
        workload: name.to_owned(),
        target: "lib".to_owned(),
        tasks: 2,
        metric,
        value,
        unit,
        runs: 1,
        ci95: 0.0,
    };
    let both = |(name, sum): (&str, Sum)| {
        let cases = row(name, "cases", sum.total.into(), "1");
        [
            row(name, "conflict_free_share", sum.share(), "ratio"),
            cases,
        ]
    };
    sums(verdicts).into_iter().flat_map(both).collect()
}

fn sums(verdicts: &[Verdict]) -> Vec<(&'static str, Sum)> {
    let of = |wanted: &dyn Fn(&Case) -> bool| {
        let mut sum = Sum::default();
        verdicts
            .iter()
            .filter(|v| wanted(&v.case))
            .for_each(|v| sum.add(v));
        sum
    };
    vec![
        ("all", of(&|_| true)),
        ("window 1", of(&|case| case.window == 1)),
        ("window 256", of(&|case| case.window > 1)),
        ("one process", of(&|case| case.is_one_process)),
        ("two processes", of(&|case| !case.is_one_process)),
    ]
}

/// Free of all, verb by verb.
fn matrix(verdicts: &[Verdict]) -> String {
    let mut cells: BTreeMap<(Verb, Verb), Sum> = BTreeMap::new();
    for verdict in verdicts {
        cells
            .entry((verdict.case.a, verdict.case.b))
            .or_default()
            .add(verdict);
    }
    let mut out = format!("{:8}", "free/all");
    for verb in Verb::ALL {
        let _ = write!(out, "{:>8}", verb.name());
    }
    for a in Verb::ALL {
        let _ = write!(out, "\n{:8}", a.name());
        for b in Verb::ALL {
            let cell = cells.get(&(a, b));
            let cell = cell.map(|sum| format!("{}/{}", sum.free, sum.total));
            let _ = write!(out, "{:>8}", cell.unwrap_or_default());
        }
    }
    out.push_str("\n\n");
    out
}

/// The conflicts, grouped by the two places in the source, the most frequent first.
fn by_source(verdicts: &[Verdict], source: &mut Source, verbose: bool) -> String {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let faults = verdicts.iter().filter(|verdict| !verdict.is_free());
    for verdict in faults {
        let why = allowed::reason(&verdict.case);
        let case = match why {
            Some(why) => format!("{} [allowed: {why}]", verdict.case),
            None => verdict.case.to_string(),
        };
        for conflict in &verdict.conflicts {
            let side = |n: usize, source: &mut Source| {
                let does = if conflict.writes[n] {
                    "writes"
                } else {
                    "reads"
                };
                format!("{does} {}", source.name(&conflict.sides[n]))
            };
            let mut both = [side(0, source), side(1, source)];
            both.sort();
            let what = if conflict.is_false_sharing {
                " (false sharing)"
            } else {
                ""
            };
            let place = format!("{}\n  {}{what}", both[0], both[1]);
            places.entry(place).or_default().push(case.clone());
        }
    }
    let mut places: Vec<(String, Vec<String>)> = places.into_iter().collect();
    places.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    let mut out = String::new();
    for (place, mut cases) in places {
        let lines = cases.len();
        cases.dedup();
        let _ = writeln!(out, "\n{lines} lines in {} cases:\n  {place}", cases.len());
        let shown = if verbose { cases.len() } else { 4 };
        for case in cases.iter().take(shown) {
            let _ = writeln!(out, "    {case}");
        }
        if cases.len() > shown {
            let _ = writeln!(out, "    and {} more", cases.len() - shown);
        }
    }
    out
}
