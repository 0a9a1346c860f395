//! `cargo xtask tidy`: the rules of the code that a compiler does not know.

use crate::{crates, place, rust_text};
use std::path::Path;

/// What the rules found: failures, and things worth a look.
#[derive(Debug, Default)]
pub struct Findings {
    /// Each breaks a rule.
    pub failures: Vec<String>,
    /// Each is over a soft limit.
    pub notes: Vec<String>,
}

const FILE_LINES_SOFT: usize = 400;
const FILE_LINES_HARD: usize = 700;
const FUNCTION_LINES_SOFT: usize = 70;
const LINE_COLUMNS: usize = 100;
const INLINE_TEST_LINES: usize = 150;

/// Where `unsafe` may stand, besides tests: paths that begin like one of these.
const UNSAFE_HOMES: &[&str] = &[
    "crates/sync/src/",
    "crates/fuse/src/transport",
    "crates/fuse/src/mount",
    "crates/fuse/src/wire",
];

/// Where std's threads, locks and atomics may stand.
const PRIMITIVE: &[&str] = &[
    "crates/sync/src/primitive",
    // The stand-in for the epoch under a model checker is made of std's.
    "crates/sync/src/epoch/modelled",
];

/// Crates whose `src` is checked for `unsafe` and std's primitives.
const PRODUCT: &[&str] = &[
    "hearth-sync",
    "hearth-sched",
    "hearth-store",
    "hearth",
    "hearth-control",
    "hearth-fuse",
    "hearth-cli",
    "hearth-python",
];

/// File names that say nothing about what is inside.
const DRAWERS: &[&str] = &["utils", "util", "common", "helpers", "types", "manager"];

/// Checks the tree, prints what it finds and fails when a rule is broken.
pub fn run() -> Result<(), String> {
    let findings = tree();
    for note in &findings.notes {
        println!("note: {note}");
    }
    for failure in &findings.failures {
        println!("{failure}");
    }
    match findings.failures.len() {
        0 => Ok(()),
        count => Err(format!("{count} rules broken")),
    }
}

/// Checks all sources and documents.
pub fn tree() -> Findings {
    let mut findings = Findings::default();
    let product: Vec<_> = crates::members()
        .into_iter()
        .filter(|member| PRODUCT.contains(&&*member.name))
        .map(|member| place::shown(&member.dir.join("src")))
        .collect();
    for path in place::files(&place::root(), &[".rs", ".md", ".toml", ".sh"]) {
        let shown = place::shown(&path);
        let Ok(text) = std::fs::read_to_string(&path) else {
            findings.failures.push(format!("{shown}: not UTF-8"));
            continue;
        };
        banned(&shown, &text, &mut findings);
        if shown.ends_with(".rs") {
            let inside = product.iter().any(|src| Path::new(&shown).starts_with(src));
            rust_file(&shown, &text, inside, &mut findings);
        }
    }
    let page = place::root().join("ARCHITECTURE.md");
    match std::fs::read_to_string(page) {
        Ok(text) => architecture(&text, &mut findings),
        Err(error) => findings.failures.push(format!("ARCHITECTURE.md: {error}")),
    }
    match std::fs::read_to_string(place::root().join("docs/semantics.md")) {
        Ok(text) => promises(&text, &mut findings),
        Err(error) => findings
            .failures
            .push(format!("docs/semantics.md: {error}")),
    }
    findings
}

fn banned(shown: &str, text: &str, findings: &mut Findings) {
    let banned = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"]].map(|parts| parts.concat());
    for (number, line) in text.lines().enumerate() {
        if ["<<<<<<< ", ">>>>>>> "]
            .iter()
            .any(|mark| line.starts_with(mark))
        {
            let what = format!("{shown}:{}: a merge that was not finished", number + 1);
            findings.failures.push(what);
        }
        for word in &banned {
            if !rust_text::words(line, word).is_empty() {
                let what = format!("{shown}:{}: {word}", number + 1);
                findings.failures.push(what);
            }
        }
    }
    let stem = Path::new(shown).file_stem().unwrap_or_default();
    if DRAWERS.iter().any(|drawer| stem == *drawer) {
        findings.failures.push(format!(
            "{shown}: a drawer; name the file after what is in it"
        ));
    }
}

fn rust_file(shown: &str, text: &str, product: bool, findings: &mut Findings) {
    let code = rust_text::code(text);
    let own = rust_text::without_tests(&code);
    sizes(shown, text, &code, &own, findings);
    if !product {
        return;
    }
    let at_home = UNSAFE_HOMES.iter().any(|home| shown.starts_with(home));
    if !at_home && !rust_text::words(&own, "unsafe").is_empty() {
        findings
            .failures
            .push(format!("{shown}: unsafe outside its homes"));
    }
    for path in ["std::sync", "std::thread", "core::sync"] {
        let at_home = PRIMITIVE.iter().any(|home| shown.starts_with(home));
        if !at_home && !is_test(shown) && own.contains(path) {
            findings.failures.push(format!(
                "{shown}: {path}; take it from hearth_sync::primitive"
            ));
        }
    }
}

/// Files that only test builds compile.
fn is_test(shown: &str) -> bool {
    shown.contains("/tests/") || shown.ends_with("/tests.rs") || shown.contains("/tests_")
}

fn sizes(shown: &str, text: &str, code: &str, own: &str, findings: &mut Findings) {
    let test_file = is_test(shown);
    let lines = rust_text::code_lines(own);
    if lines > FILE_LINES_HARD && !test_file {
        findings.failures.push(format!(
            "{shown}: {lines} lines of code (at most {FILE_LINES_HARD})"
        ));
    } else if lines > FILE_LINES_SOFT {
        findings
            .notes
            .push(format!("{shown}: {lines} lines of code"));
    }
    let inline = rust_text::code_lines(code).saturating_sub(lines);
    if inline > INLINE_TEST_LINES {
        findings.notes.push(format!(
            "{shown}: {inline} lines of inline tests; move them to tests.rs"
        ));
    }
    for (name, line, length) in rust_text::functions(own) {
        if length > FUNCTION_LINES_SOFT {
            findings
                .notes
                .push(format!("{shown}:{line}: {name} has {length} lines"));
        }
    }
    for (number, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > LINE_COLUMNS && !line.contains("://") {
            findings
                .failures
                .push(format!("{shown}:{}: {columns} columns", number + 1));
        }
    }
}

/// Every path and every type that ARCHITECTURE.md names in backticks exists.
fn architecture(text: &str, findings: &mut Findings) {
    let sources: Vec<String> = place::files(&place::root().join("crates"), &[".rs"])
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect();
    for (number, line) in text.lines().enumerate() {
        for token in line.split('`').skip(1).step_by(2) {
            let missing = if looks_like_path(token) {
                expand(token)
                    .into_iter()
                    .find(|path| !place::root().join(path.trim_end_matches('/')).exists())
            } else if looks_like_type(token) {
                let known = |source: &String| !rust_text::words(source, token).is_empty();
                (!sources.iter().any(known)).then(|| token.to_owned())
            } else {
                None
            };
            if let Some(missing) = missing {
                findings.failures.push(format!(
                    "ARCHITECTURE.md:{}: there is no {missing}",
                    number + 1
                ));
            }
        }
    }
}

/// Every promise of docs/semantics.md that stands in a table names tests, and they are there: files
/// or directories by the end of their path, or a suite of others.
fn promises(text: &str, findings: &mut Findings) {
    let files: Vec<String> = place::files(&place::root().join("crates"), &[".rs"])
        .iter()
        .map(|path| place::shown(path))
        .collect();
    let is_there = |name: &str| match name.ends_with(".rs") {
        true => files.iter().any(|file| Path::new(file).ends_with(name)),
        false => files.iter().any(|file| file.contains(&format!("/{name}"))),
    };
    let mut in_table = false;
    for (number, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        in_table = match line.starts_with('|') {
            true => in_table || cells.last() == Some(&"test"),
            false => false,
        };
        let tests = cells.last().copied().unwrap_or_default();
        if !in_table || tests == "test" || line.starts_with("|---") {
            continue;
        }
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        let absent = names.iter().find(|name| !is_there(name));
        let what = match absent {
            Some(absent) => format!("there is no test {absent}"),
            None if names.is_empty() && !tests.contains("pjdfstest") => {
                "a promise without a test".to_owned()
            }
            None => continue,
        };
        let place = format!("docs/semantics.md:{}", number + 1);
        findings.failures.push(format!("{place}: {what}"));
    }
}

fn looks_like_path(token: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/{},".contains(c);
    let first = token.split('/').next().unwrap_or_default();
    let place = ["crates", "docs", "xtask", ".ci", ".cargo", "packaging"].contains(&first);
    token.chars().all(plain) && place && token.contains('/')
}

fn looks_like_type(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_uppercase())
        && token.contains(|c: char| c.is_ascii_lowercase())
        && token.chars().all(|c| c.is_ascii_alphanumeric())
}

/// `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn expand(path: &str) -> Vec<String> {
    let (Some(open), Some(close)) = (path.find('{'), path.find('}')) else {
        return vec![path.to_owned()];
    };
    path[open + 1..close]
        .split(',')
        .flat_map(|part| expand(&format!("{}{part}{}", &path[..open], &path[close + 1..])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(shown: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        banned(shown, text, &mut findings);
        rust_file(shown, text, true, &mut findings);
        findings.failures
    }

    #[test]
    fn the_tree_is_tidy() {
        let found = tree();
        assert!(found.failures.is_empty(), "{:#?}", found.failures);
    }

    #[test]
    fn each_planted_fault_is_found() {
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(700));
        let wide = format!("// {}\n", "w".repeat(98));
        let word = format!("// {}{}: later\n", "FIX", "ME");
        for (shown, text) in [
            ("crates/fs/src/a.rs", "unsafe fn f() {}\n"),
            ("crates/fs/src/a.rs", "use std::sync::Mutex;\n"),
            (
                "crates/fs/src/a.rs",
                "fn f() { std::thread::yield_now() }\n",
            ),
            ("crates/fs/src/helpers.rs", ""),
            ("crates/fs/src/a.rs", &long),
            ("crates/fs/src/a.rs", &wide),
            ("crates/fs/src/a.rs", &word),
            ("docs/semantics.md", "<<<<<<< HEAD\n"),
        ] {
            assert_eq!(failures(shown, text).len(), 1, "{shown}: {text:.60}");
        }
    }

    #[test]
    fn homes_and_tests_are_free() {
        let test = "#[cfg(test)]\nmod tests { use std::sync::Mutex; }\n";
        assert!(failures("crates/fs/src/a.rs", test).is_empty());
        assert!(failures("crates/sync/src/epoch.rs", "unsafe fn f() {}\n").is_empty());
        let primitive = "pub use std::sync::Arc;\n";
        assert!(failures("crates/sync/src/primitive.rs", primitive).is_empty());
        assert!(failures("crates/fs/src/a.rs", "#![forbid(unsafe_code)]\n").is_empty());
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        let mut findings = Findings::default();
        let page = "| promise | test |\n|---|---|\n| all | `crates/fs/tests/model.rs` |\n\
                    | some | `no_such.rs` |\n| more | perhaps |\n\n| price | seen |\n| 1 | no |\n";
        promises(page, &mut findings);
        assert_eq!(
            findings.failures,
            [
                "docs/semantics.md:4: there is no test no_such.rs",
                "docs/semantics.md:5: a promise without a test"
            ]
        );
    }

    #[test]
    fn a_path_that_is_not_there_is_found() {
        let mut findings = Findings::default();
        let page = "`xtask/src/{tidy,layers}.rs` `MOUNT/.hearth/stats` `docs/no-such.md`\n";
        architecture(page, &mut findings);
        assert_eq!(
            findings.failures,
            ["ARCHITECTURE.md:1: there is no docs/no-such.md"]
        );
    }
}
