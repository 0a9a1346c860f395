//! What the runner prints: sums, and the conflicts by place in the source.

use super::case::{LONG, Sharing};
use super::matrix::Matrix;
use super::plan::Extent;
use super::source::Source;
use super::tally::Tally;
use super::verdict::{Sum, Verdict, by_case};
use hearth_bench::row::Row;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Some of the verdicts, under a name.
type Part = (&'static str, fn(&Verdict) -> bool);

/// Of cases, which are free if all their windows are.
const PARTS: [Part; 4] = [
    ("all", |_| true),
    ("threads", |v| v.case.sharing == Sharing::Threads),
    ("processes", |v| v.case.sharing == Sharing::Processes),
    ("kin", |v| v.case.sharing == Sharing::Kin),
];

/// Of windows.
const WINDOWS: [Part; 2] = [
    ("window 1", |v| v.window == 1),
    ("window 256", |v| v.window == LONG),
];

/// The sums as a table.
pub fn sums(tally: Tally, verdicts: &[Verdict]) -> String {
    let mut out = format!(
        "{} cases: {} commute, {} do not, {} are left open by Linux\n\n",
        tally.cases, tally.commute, tally.depend, tally.open
    );
    let _ = writeln!(
        out,
        "{:<12} {:>8} {:>8} {:>8} {:>9} {:>12}",
        "", "cases", "free", "share", "allowed", "but allowed"
    );
    for (name, sum) in parts(verdicts) {
        let _ = writeln!(
            out,
            "{name:<12} {:>8} {:>8} {:>7.2}% {:>9} {:>11.2}%",
            sum.total,
            sum.free,
            sum.share() * 100.0,
            sum.allowed,
            sum.share_but_allowed() * 100.0
        );
    }
    out
}

/// The same sums and those of each pair as rows.
pub fn rows(tally: Tally, verdicts: &[Verdict]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, sum) in parts(verdicts) {
        rows.extend(shares(name, sum));
        rows.push(row(name, "cases", sum.total as f64, "1"));
    }
    rows.push(row("all", "enumerated_cases", tally.cases as f64, "1"));
    rows.push(row("all", "commuting_cases", tally.commute as f64, "1"));
    rows.push(row("all", "dependent_cases", tally.depend as f64, "1"));
    rows.push(row("all", "unspecified_cases", tally.open as f64, "1"));
    for (a, b, sum) in Matrix::of(&by_case(verdicts)).pairs() {
        let pair = format!("{}|{}", a.name(), b.name());
        rows.extend(shares(&pair, sum));
        rows.push(row(&pair, "cases", sum.total as f64, "1"));
    }
    rows
}

/// A row about the library.
pub fn row(workload: &str, metric: &'static str, value: f64, unit: &'static str) -> Row {
    Row {
        bench: "conflicts",
        workload: workload.to_owned(),
        target: "lib".to_owned(),
        tasks: 2,
        metric,
        value,
        unit,
        runs: 1,
        ci95: 0.0,
    }
}

/// How many are free: of all, and of those that no rule allows.
pub fn shares(name: &str, sum: Sum) -> [Row; 2] {
    let of_rest = sum.share_but_allowed();
    [
        row(name, "conflict_free_share", sum.share(), "ratio"),
        row(name, "conflict_free_share_but_allowed", of_rest, "ratio"),
    ]
}

fn parts(verdicts: &[Verdict]) -> Vec<(&'static str, Sum)> {
    let sums = |parts: &[Part], of: &[Verdict]| -> Vec<_> {
        let sum = |wanted: fn(&Verdict) -> bool| Sum::of(of.iter().filter(|v| wanted(v)));
        let each = parts.iter();
        each.map(|&(name, wanted)| (name, sum(wanted))).collect()
    };
    [sums(&PARTS, &by_case(verdicts)), sums(&WINDOWS, verdicts)].concat()
}

/// The command of a recorded run.
pub fn command(extent: Extent) -> String {
    match extent.cases {
        1 => "cargo xtask conflicts --record".to_owned(),
        n => format!("cargo xtask conflicts --record --sample {n}"),
    }
}

/// The page of a recorded run.
pub fn page(extent: Extent, commit: &str, text: &str) -> String {
    let what = match extent.cases {
        1 => "Every case".to_owned(),
        n => format!("One enumerated case of {n}"),
    };
    format!(
        "# Conflicts of commuting calls\n\n`{}`, commit {commit}. {what}: one call a side in {} \
         layouts, {LONG} calls a side in one; method and allow-list: \
         `docs/design/conflicts.md`.\n\n\
         ![Pairs of calls: green is free, the number is that of cases in conflict, grey are those \
         that a rule allows](conflicts.svg)\n\n```text\n{text}```\n",
        command(extent),
        extent.layouts
    )
}

/// The conflicts, grouped by the two places in the source, the most frequent first; of each the
/// first `shown` cases.
pub fn conflicts(verdicts: &[Verdict], source: &mut Source, shown: usize) -> String {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.is_free()) {
        let mut case = verdict.case.to_string();
        if verdict.window > 1 {
            let _ = write!(case, ", {} times", verdict.window);
        }
        if let Some(rule) = &verdict.rule {
            let _ = write!(case, " [allowed: {rule}]");
        }
        for conflict in &verdict.conflicts {
            let mut sides = [0, 1].map(|n| {
                let does = if conflict.writes[n] {
                    "writes"
                } else {
                    "reads"
                };
                format!("{does} {}", source.name(&conflict.sides[n]))
            });
            sides.sort();
            let what = match conflict.is_false_sharing {
                true => "\n  two things on one line",
                false => "",
            };
            let place = format!("{}\n  {}{what}", sides[0], sides[1]);
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
        for case in cases.iter().take(shown) {
            let _ = writeln!(out, "    {case}");
        }
        if cases.len() > shown {
            let _ = writeln!(out, "    and {} more", cases.len() - shown);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_commit_command_and_layouts_of_each_window() {
        let page = page(Extent::sample(5), "abc123", "");
        for part in [
            "`cargo xtask conflicts --record --sample 5`, commit abc123.",
            "one call a side in 3 layouts, 256 calls a side in one",
        ] {
            assert!(page.contains(part), "{page}");
        }
    }
}
