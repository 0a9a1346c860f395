//! The report: sums, and the conflicts by place in the source.

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

/// Parts of cases, which are free if all their windows are.
const PARTS: [Part; 4] = [
    ("all", |_| true),
    ("threads", |v| v.case.sharing == Sharing::Threads),
    ("processes", |v| v.case.sharing == Sharing::Processes),
    ("kin", |v| v.case.sharing == Sharing::Kin),
];

/// Parts of windows.
const WINDOWS: [Part; 2] = [
    ("window 1", |v| v.window == 1),
    ("window 256", |v| v.window == LONG),
];

/// Returns the sums as a table.
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

/// Returns the sums, and those of each pair of calls, as rows.
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

/// Returns a row about the library.
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

/// Returns the shares of free cases: of all, and of those that no rule allows.
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

/// Returns the command of a recorded run.
pub fn command(extent: Extent) -> String {
    match extent.cases {
        1 => "cargo xtask conflicts --record".to_owned(),
        n => format!("cargo xtask conflicts --record --sample {n}"),
    }
}

/// Places that the page of a recorded run lists.
const LISTED: usize = 10;

/// Conflicts between the same two places in the source.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceConflicts {
    /// What either side does, with its place and callers: `reads F at P < Q`.
    pub sides: [String; 2],
    /// Two things on one line: the line is shared, the bytes are not.
    pub is_false_sharing: bool,
    /// Cache lines in conflict, over all cases.
    pub lines: usize,
    /// The cases, each followed by the rule that allows it.
    pub cases: Vec<String>,
}

impl PlaceConflicts {
    /// Returns how many of the cases no rule allows.
    pub fn open_cases(&self) -> usize {
        let is_open = |case: &&String| !case.ends_with(']');
        self.cases.iter().filter(is_open).count()
    }

    /// Returns one line of JSON.
    pub fn json(&self) -> String {
        serde_json::json!({
            "sides": self.sides,
            "false_sharing": self.is_false_sharing,
            "lines": self.lines,
            "cases": self.cases,
        })
        .to_string()
    }

    fn sides_text(&self) -> String {
        let mut out = format!("  {}\n  {}\n", self.sides[0], self.sides[1]);
        if self.is_false_sharing {
            out.push_str("  two things on one line\n");
        }
        out
    }
}

/// Returns the page of a recorded run: `summary`, and the places with the most cases that no rule
/// allows.
pub fn page(extent: Extent, commit: &str, summary: &str, places: &[PlaceConflicts]) -> String {
    let what = match extent.cases {
        1 => "Every case".to_owned(),
        n => format!("One enumerated case of {n}"),
    };
    let mut open: Vec<&PlaceConflicts> = places.iter().filter(|p| p.open_cases() > 0).collect();
    open.sort_by_key(|place| std::cmp::Reverse(place.open_cases()));
    let mut text = format!(
        "# Conflicts of commuting calls\n\n`{}`, commit {commit}.\n{what}: one call a side in {} \
         layouts, {LONG} calls a side in one.\nMethod and allow-list: \
         `docs/design/conflicts.md`. Rows: `conflicts.json`.\nEvery place in the source, with \
         every case: `conflicts-places.jsonl`.\n\n\
         ![Pairs of calls: green is free, numbers count conflicts, grey is allowed]\
         (conflicts.svg)\n\n```text\n{summary}```\n\n## Places that no rule allows\n\n\
         {} pairs of places in the source conflict in some case that no rule allows.\n\
         Those with the most such cases:\n\n```text\n",
        command(extent),
        extent.layouts,
        open.len(),
    );
    for place in open.iter().take(LISTED) {
        let (some, all) = (place.open_cases(), place.cases.len());
        let _ = write!(text, "{some} of {all} cases:\n{}", place.sides_text());
    }
    text.push_str("```\n");
    text
}

/// Returns the conflicts, grouped by the two places in the source, the most frequent first.
pub fn places(verdicts: &[Verdict], source: &mut Source) -> Vec<PlaceConflicts> {
    let mut places: BTreeMap<([String; 2], bool), Vec<String>> = BTreeMap::new();
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
            let key = (sides, conflict.is_false_sharing);
            places.entry(key).or_default().push(case.clone());
        }
    }
    let group = |((sides, is_false_sharing), mut cases): (_, Vec<String>)| {
        let lines = cases.len();
        cases.dedup();
        PlaceConflicts {
            sides,
            is_false_sharing,
            lines,
            cases,
        }
    };
    let mut places: Vec<PlaceConflicts> = places.into_iter().map(group).collect();
    places.sort_by_key(|place| std::cmp::Reverse(place.lines));
    places
}

/// Returns the places as text, with the first `shown` cases of each.
pub fn conflicts(places: &[PlaceConflicts], shown: usize) -> String {
    let mut out = String::new();
    for place in places {
        let count = place.cases.len();
        let sides = place.sides_text();
        let _ = write!(out, "\n{} lines in {count} cases:\n{sides}", place.lines);
        for case in place.cases.iter().take(shown) {
            let _ = writeln!(out, "    {case}");
        }
        if count > shown {
            let _ = writeln!(out, "    and {} more", count - shown);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(side: &str, cases: &[&str]) -> PlaceConflicts {
        PlaceConflicts {
            sides: [format!("reads {side}"), format!("writes {side}")],
            is_false_sharing: false,
            lines: 7,
            cases: cases.iter().map(|case| (*case).to_owned()).collect(),
        }
    }

    #[test]
    fn the_page_says_commit_command_and_layouts_of_each_window() {
        let page = page(Extent::sample(5), "abc123", "", &[]);
        for part in [
            "`cargo xtask conflicts --record --sample 5`, commit abc123.",
            "one call a side in 3 layouts, 256 calls a side in one",
        ] {
            assert!(page.contains(part), "{page}");
        }
    }

    #[test]
    fn the_page_lists_the_places_with_the_most_cases_that_no_rule_allows() {
        let few = place("few", &["a", "b [allowed: st_size]"]);
        let many = place("many", &["a", "b"]);
        let allowed = place("allowed", &["b [allowed: st_size]"]);
        let page = page(Extent::WHOLE, "abc123", "", &[allowed, few, many]);
        let at = |part: &str| page.find(part).expect("it is listed");
        assert!(at("2 of 2 cases:\n  reads many") < at("1 of 2 cases:\n  reads few"));
        assert!(!page.contains("reads allowed"), "{page}");
    }

    #[test]
    fn the_longest_page_has_at_most_120_lines() {
        let place = PlaceConflicts {
            is_false_sharing: true,
            ..place("it", &["a"])
        };
        // The sums, the costs and the matrix of a recorded run.
        let summary = "x\n".repeat(58);
        let page = page(Extent::WHOLE, "abc123", &summary, &vec![place; 100]);
        assert!(page.lines().count() <= 120, "{}", page.lines().count());
    }
}
