//! `cargo xtask tidy`: the rules of the code that a compiler does not know.

use crate::{counted, crates, page, place, rust_text};
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
    "crates/fuse/src/placement/cpu.rs",
    "crates/fuse/src/wire",
    // System calls that rustix does not have.
    "crates/host/src/sys.rs",
    "crates/store/src/disk/sys.rs",
    // The allocator of the program: one call of its own interface.
    "crates/cli/src/main.rs",
    // Affinity and scheduling policy of a thread.
    "crates/fuse/src/placement/cpu.rs",
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
    "hearth-host",
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
    let architecture = place::root().join("ARCHITECTURE.md");
    match std::fs::read_to_string(architecture) {
        Ok(text) => findings.failures.extend(page::architecture(&text)),
        Err(error) => findings.failures.push(format!("ARCHITECTURE.md: {error}")),
    }
    match std::fs::read_to_string(place::root().join("docs/semantics.md")) {
        Ok(text) => findings.failures.extend(page::promises(&text)),
        Err(error) => findings
            .failures
            .push(format!("docs/semantics.md: {error}")),
    }
    let (failures, notes) = counted::tree();
    findings.failures.extend(failures);
    findings.notes.extend(notes);
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
}
