//! Rules of wording that not all of the tree keeps yet. Each is counted for each crate, and for all
//! pages together: a count may not pass its allowance, and an allowance only falls.

use crate::{crates, place, rust_text};
use std::collections::{BTreeMap, BTreeSet};

/// The counted rules, by the names that are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wording {
    /// A doc comment does not begin with one of [`OPENINGS`].
    Opening,
    /// A doc comment says "returns", not "answers".
    Answers,
    /// Prose of a page is at most [`PAGE_COLUMNS`] wide.
    Columns,
    /// A type has a name of its own in its crate.
    TypeName,
}

const OPENINGS: &[&str] = &[
    "The same", "Who ", "Whose ", "So many", "So much", "As above", "As `",
];

const PAGE_COLUMNS: usize = 100;

/// The most entries of `docs/glossary.md`.
const GLOSSARY_MAX: usize = 40;

/// Pages that may not grow, and their most lines.
const PAGE_LINES_MAX: &[(&str, usize)] = &[("docs/benchmarks.md", 300), ("ARCHITECTURE.md", 320)];

/// Files whose types stand for those of another file, which `cfg` chooses.
const FACADES: &[&str] = &[
    "crates/sync/src/primitive",
    "crates/sync/src/epoch/modelled",
    "crates/sync/src/epoch/native",
    "crates/sync/src/lock/modelled",
];

/// What the pages count as.
const PAGES: &str = "docs";

/// How many times a crate may break a rule until it is put right. What is not listed may not.
const ALLOWANCES: &[(Wording, &str, usize)] = &[
    (Wording::Answers, "hearth", 1),
    (Wording::Answers, "hearth-cli", 1),
    (Wording::Answers, "hearth-fuse", 1),
    (Wording::TypeName, "hearth-conflicts", 1),
];

/// Checks the tree: what is over its allowance, and the counts of what is not zero.
pub fn tree() -> (Vec<String>, Vec<String>) {
    let (mut found, mut long) = (Vec::new(), Vec::new());
    for member in crates::members() {
        let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in place::files(&member.dir, &[".rs"]) {
            let shown = place::shown(&path);
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            for (rule, what) in comments(&shown, &text) {
                found.push((rule, member.name.clone(), what));
            }
            if path.starts_with(member.dir.join("src")) && !is_left_out(&shown) {
                let own = rust_text::without_tests(&rust_text::code(&text));
                for name in top_types(&own) {
                    types.entry(name).or_default().insert(shown.clone());
                }
            }
        }
        for what in doubled(&types) {
            found.push((Wording::TypeName, member.name.clone(), what));
        }
    }
    for path in place::files(&place::root(), &[".md"]) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for what in wide(&place::shown(&path), &text) {
            found.push((Wording::Columns, PAGES.to_owned(), what));
        }
        long.extend(too_long(&place::shown(&path), &text));
    }
    let (mut failures, notes) = judge(&found, ALLOWANCES);
    failures.extend(long);
    let glossary = place::root().join("docs/glossary.md");
    match std::fs::read_to_string(glossary) {
        Ok(text) => failures.extend(glossary_size(&text)),
        Err(error) => failures.push(format!("docs/glossary.md: {error}")),
    }
    (failures, notes)
}

/// Failures where a count is over its allowance, each with the places; notes with all counts.
fn judge(
    found: &[(Wording, String, String)],
    allowances: &[(Wording, &str, usize)],
) -> (Vec<String>, Vec<String>) {
    let mut places: BTreeMap<(Wording, &str), Vec<&str>> = BTreeMap::new();
    for (rule, of, what) in found {
        places.entry((*rule, of)).or_default().push(what);
    }
    for (rule, of, _) in allowances {
        places.entry((*rule, of)).or_default();
    }
    let (mut failures, mut notes) = (Vec::new(), Vec::new());
    for ((rule, of), places) in places {
        let listed = allowances.iter().find(|(r, o, _)| (*r, *o) == (rule, of));
        let (count, allowed) = (places.len(), listed.map_or(0, |(_, _, allowed)| *allowed));
        let counted = format!("{rule:?} {of}: {count}, allowed {allowed}");
        if count > allowed {
            failures.push(format!("{counted}\n  {}", places.join("\n  ")));
        } else if count < allowed {
            notes.push(format!("{counted}: lower the allowance"));
        } else {
            notes.push(counted);
        }
    }
    (failures, notes)
}

/// Doc comments that begin with a banned opening, and lines that say "answers" for "returns".
fn comments(shown: &str, text: &str) -> Vec<(Wording, String)> {
    let mut found = Vec::new();
    let mut before = "";
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let marker = ["///", "//!"].into_iter().find(|m| line.starts_with(m));
        if let Some(marker) = marker.filter(|_| !line.starts_with("////")) {
            let words = line[marker.len()..].trim_start();
            let shown = format!("{shown}:{}: {words}", number + 1);
            if before != marker && OPENINGS.iter().any(|opening| words.starts_with(opening)) {
                found.push((Wording::Opening, shown.clone()));
            }
            if says_answers(words) {
                found.push((Wording::Answers, shown));
            }
        }
        before = marker.unwrap_or_default();
    }
    found
}

/// Whether "answers" stands for "returns" here. A kernel or a daemon may answer a request.
fn says_answers(words: &str) -> bool {
    const AFTER_NOUN: &[&str] = &[
        ":", "are", "of", "to", "about", "that", "as", "and", "by", "requests",
    ];
    const RETURNED: &[&str] = &[
        "whether", "true", "false", "the", "`true`", "`false`", "what",
    ];
    ["Answers", "answers"].iter().any(|word| {
        rust_text::words(words, word).iter().any(|at| {
            let before = words[..*at].trim_end().chars().next_back();
            let next = words[at + word.len()..].split_whitespace().next();
            let next = next.unwrap_or_default();
            match *word {
                "Answers" => !AFTER_NOUN.contains(&next),
                _ => before.is_some_and(|c| c == ';' || c == ',') && RETURNED.contains(&next),
            }
        })
    })
}

/// Files whose type names may stand elsewhere as well.
fn is_left_out(shown: &str) -> bool {
    let stem = shown.rsplit('/').next().unwrap_or_default();
    FACADES.iter().any(|facade| shown.starts_with(facade))
        || shown.contains("/tests/")
        || stem.starts_with("tests")
        || stem.ends_with("_tests.rs")
}

/// Names of the types that stand at the left margin of `code`.
fn top_types(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in code.lines() {
        let mut words = line.split_whitespace().peekable();
        if line.starts_with(char::is_whitespace) {
            continue;
        }
        while words
            .peek()
            .is_some_and(|w| w.starts_with("pub") || w.ends_with(')'))
        {
            words.next();
        }
        if words
            .next()
            .is_some_and(|w| ["struct", "enum", "trait", "type", "union"].contains(&w))
        {
            let name = words.next().unwrap_or_default();
            found.push(
                name.chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect(),
            );
        }
    }
    found
}

/// One finding for each file but the first that defines a name.
fn doubled(types: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, files) in types {
        let mut files = files.iter();
        let first = files.next();
        found.extend(files.map(|file| {
            let first = first.map_or("", |first| first);
            format!("{file}: {name}, as in {first}")
        }));
    }
    found
}

/// Lines of prose that are too wide; tables, code and the targets of links do not count.
fn wide(shown: &str, text: &str) -> Vec<String> {
    let (mut found, mut in_code) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let columns = without_targets(line).chars().count();
        let is_prose = !in_code && !line.starts_with('|') && !line.contains("://");
        if is_prose && columns > PAGE_COLUMNS {
            found.push(format!("{shown}:{}: {columns} columns", number + 1));
        }
    }
    found
}

/// `[a](b) c` as `[a] c`.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push(']');
        kept.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    kept
}

fn too_long(shown: &str, text: &str) -> Option<String> {
    let (_, max) = PAGE_LINES_MAX.iter().find(|(page, _)| *page == shown)?;
    let lines = text.lines().count();
    (lines > *max).then(|| format!("{shown}: {lines} lines (at most {max})"))
}

/// The rows of the glossary's tables, heads left out.
fn glossary_size(text: &str) -> Option<String> {
    let rows = text.lines().filter(|line| line.starts_with('|')).count();
    let tables = text.lines().filter(|line| line.starts_with("|--")).count();
    let entries = rows.saturating_sub(2 * tables);
    (entries > GLOSSARY_MAX)
        .then(|| format!("docs/glossary.md: {entries} entries (at most {GLOSSARY_MAX})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<Wording> {
        let found = comments("a.rs", text);
        found.into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn a_banned_opening_is_found_at_the_beginning_of_a_comment_alone() {
        for opening in OPENINGS {
            assert_eq!(rules(&format!("/// {opening} x`.\n")), [Wording::Opening]);
            assert_eq!(rules(&format!("/// A lock.\n/// {opening} x`.\n")), []);
        }
        assert_eq!(rules("//! A page.\n/// Who waits.\n"), [Wording::Opening]);
        assert_eq!(rules("// The same.\n"), []);
    }

    #[test]
    fn answers_is_found_where_it_stands_for_returns() {
        assert_eq!(rules("/// Answers the count.\n"), [Wording::Answers]);
        assert_eq!(
            rules("/// Adds; answers whether it did.\n"),
            [Wording::Answers]
        );
        assert_eq!(
            rules("/// What the daemon answers. Answers are JSON.\n"),
            []
        );
    }

    #[test]
    fn a_wide_line_of_prose_is_found_and_tables_code_and_targets_are_free() {
        let long = "w".repeat(101);
        let page = format!("{long}\n| {long} |\n```\n{long}\n```\n[a]({long}) b\nhttp://{long}\n");
        assert_eq!(wide("a.md", &page), ["a.md:1: 101 columns"]);
    }

    #[test]
    fn a_type_in_two_files_is_found_and_a_method_or_a_test_is_not() {
        let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (file, code) in [
            (
                "a.rs",
                "pub struct Part;\nimpl Part {\n    type Out = u8;\n}\n",
            ),
            ("b.rs", "pub(crate) enum Part<T> {}\ntype Out = u8;\n"),
        ] {
            for name in top_types(code) {
                types.entry(name).or_default().insert(file.to_owned());
            }
        }
        assert_eq!(doubled(&types), ["b.rs: Part, as in a.rs"]);
        assert!(is_left_out("crates/fs/src/a/tests.rs"));
        assert!(!is_left_out("crates/fs/src/a/b.rs"));
    }

    #[test]
    fn a_count_over_its_allowance_fails_and_one_below_is_told() {
        let one = |of: &str| (Wording::Opening, of.to_owned(), "x".to_owned());
        let found = [one("a"), one("a"), one("b")];
        let allowed = [(Wording::Opening, "a", 1), (Wording::Opening, "b", 2)];
        let (failures, notes) = judge(&found, &allowed);
        assert_eq!(failures, ["Opening a: 2, allowed 1\n  x\n  x"]);
        assert_eq!(notes, ["Opening b: 1, allowed 2: lower the allowance"]);
        assert_eq!(judge(&found[2..], &[]).0.len(), 1);
    }

    #[test]
    fn a_page_that_is_too_long_is_found() {
        let (page, max) = PAGE_LINES_MAX[0];
        assert_eq!(too_long(page, &"x\n".repeat(max)), None);
        assert!(too_long(page, &"x\n".repeat(max + 1)).is_some());
        assert_eq!(too_long("docs/another.md", &"x\n".repeat(max + 1)), None);
    }

    #[test]
    fn a_glossary_that_is_too_long_is_found() {
        let head = "| word | meaning |\n|---|---|\n";
        let rows = |n: usize| format!("{head}{}", "| a | b |\n".repeat(n));
        assert_eq!(glossary_size(&rows(GLOSSARY_MAX)), None);
        assert!(glossary_size(&rows(GLOSSARY_MAX + 1)).is_some());
    }
}
