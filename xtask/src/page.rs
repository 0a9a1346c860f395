//! What ARCHITECTURE.md and docs/semantics.md say about the tree is true.

use crate::{place, rust_text};
use std::path::Path;

/// Every path and every type that ARCHITECTURE.md names in backticks exists. Where the page says
/// in which file a name is, the file defines it: "`Type::function` in `path`", and each row of a
/// table whose first cell is paths.
pub fn architecture(text: &str) -> Vec<String> {
    let sources: Vec<(String, String)> = place::files(&place::root(), &[".rs"])
        .iter()
        .filter_map(|path| {
            let code = rust_text::code(&std::fs::read_to_string(path).ok()?);
            Some((place::shown(path), code))
        })
        .collect();
    let mut found = Vec::new();
    for (number, block) in blocks(text) {
        let mut failed = missing(&block, &sources);
        failed.extend(misplaced(&block, &sources));
        let place = format!("ARCHITECTURE.md:{number}");
        found.extend(failed.iter().map(|what| format!("{place}: {what}")));
    }
    found
}

/// Rows of tables, list items and paragraphs, each in one line, with the number of its first line.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in text.lines().enumerate() {
        let is_item = line.starts_with("- ") || line.starts_with(|c: char| c.is_ascii_digit());
        match found.last_mut() {
            Some((_, block)) if goes_on && !is_item && !line.starts_with('|') => {
                block.push(' ');
                block.push_str(line.trim_start());
            }
            _ => found.push((number + 1, line.to_owned())),
        }
        goes_on = !line.is_empty() && !line.starts_with(['|', '#']);
    }
    found
}

/// Paths and types of a line that are nowhere.
fn missing(line: &str, sources: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for token in quoted(line) {
        if looks_like_path(token) {
            let is_absent =
                |path: &String| !place::root().join(path.trim_end_matches('/')).exists();
            found.extend(expand(token).into_iter().filter(is_absent));
        } else if looks_like_type(token) {
            let is_known = |(_, code): &(String, String)| !rust_text::words(code, token).is_empty();
            if !sources.iter().any(is_known) {
                found.push(token.to_owned());
            }
        }
    }
    found
        .iter()
        .map(|what| format!("there is no {what}"))
        .collect()
}

/// Names that the line places in a file which does not define them.
fn misplaced(line: &str, sources: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |name: &str, paths: &[&str]| {
        let last = name.trim_end_matches("()");
        let absent = last
            .split("::")
            .find(|part| !is_defined(part, paths, sources));
        if let Some(part) = absent {
            found.push(format!("{part} is not in {}", paths.join(", ")));
        }
    };
    for (at, _) in line.match_indices("` in `") {
        let name = line[..at].rsplit('`').next().unwrap_or_default();
        let path = line[at + 6..].split('`').next().unwrap_or_default();
        if looks_like_name(name) && looks_like_path(path) {
            check(
                name,
                &expand_all(&[path]).iter().map(|p| &**p).collect::<Vec<_>>(),
            );
        }
    }
    if let Some((first, rest)) = line.strip_prefix('|').and_then(|row| row.split_once('|')) {
        let paths: Vec<&str> = quoted(first)
            .into_iter()
            .filter(|t| looks_like_path(t))
            .collect();
        let paths = expand_all(&paths);
        let paths: Vec<&str> = paths.iter().map(|path| &**path).collect();
        let is_name = |token: &&str| looks_like_type(token) || token.contains("::");
        for name in quoted(rest).into_iter().filter(is_name) {
            if !paths.is_empty() && looks_like_name(name) {
                check(name, &paths);
            }
        }
    }
    found
}

/// Whether one of the files at `paths`, or under them, defines `name`.
fn is_defined(name: &str, paths: &[&str], sources: &[(String, String)]) -> bool {
    let kinds = [
        "struct", "enum", "trait", "fn", "type", "const", "static", "union", "mod",
    ];
    sources
        .iter()
        .filter(|(file, _)| paths.iter().any(|path| Path::new(file).starts_with(path)))
        .any(|(_, code)| {
            rust_text::words(code, name).iter().any(|at| {
                let before = code[..*at].split_whitespace().next_back();
                // Methods may stand in another file than their type.
                let is_impl = |kind: &str| kind == "for" || kind.starts_with("impl");
                before.is_some_and(|kind| kinds.contains(&kind) || is_impl(kind))
            })
        })
}

/// Every promise of docs/semantics.md that stands in a table names tests, and they are there: files
/// or directories by the end of their path, or a suite of others.
pub fn promises(text: &str) -> Vec<String> {
    let files: Vec<String> = place::files(&place::root().join("crates"), &[".rs"])
        .iter()
        .map(|path| place::shown(path))
        .collect();
    let is_there = |name: &str| match name.ends_with(".rs") {
        true => files.iter().any(|file| Path::new(file).ends_with(name)),
        false => files.iter().any(|file| file.contains(&format!("/{name}"))),
    };
    let mut found = Vec::new();
    let mut in_table = false;
    for (number, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        in_table = match line.starts_with('|') {
            true => in_table || cells.last() == Some(&"test"),
            false => false,
        };
        let tests = cells.last().copied().unwrap_or_default();
        let place = format!("docs/semantics.md:{}", number + 1);
        if !in_table {
            // Prose names its tests as well, by their path.
            let absent = |token: &&str| token.ends_with(".rs") && !is_there(token);
            let absent = quoted(line).into_iter().filter(absent);
            found.extend(absent.map(|name| format!("{place}: there is no test {name}")));
            continue;
        }
        if tests == "test" || line.starts_with("|---") {
            continue;
        }
        let names = quoted(tests);
        let what = match names.iter().find(|name| !is_there(name)) {
            Some(absent) => format!("there is no test {absent}"),
            None if names.is_empty() && !tests.contains("pjdfstest") => {
                "a promise without a test".to_owned()
            }
            None => continue,
        };
        found.push(format!("{place}: {what}"));
    }
    found
}

/// What stands in backticks.
fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
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

/// A name of Rust, or several with `::` between them.
fn looks_like_name(token: &str) -> bool {
    let is_word = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.chars().all(plain)
    };
    token.trim_end_matches("()").split("::").all(is_word)
}

fn expand_all(paths: &[&str]) -> Vec<String> {
    paths.iter().flat_map(|path| expand(path)).collect()
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

    #[test]
    fn a_promise_without_a_test_is_found() {
        let page = "| promise | test |\n|---|---|\n| all | `crates/fs/tests/model.rs` |\n\
                    | some | `no_such.rs` |\n| more | perhaps |\n\n| price | seen |\n| 1 | no |\n\
                    Held by `nor_this.rs`.\n";
        assert_eq!(
            promises(page),
            [
                "docs/semantics.md:4: there is no test no_such.rs",
                "docs/semantics.md:5: a promise without a test",
                "docs/semantics.md:9: there is no test nor_this.rs"
            ]
        );
    }

    #[test]
    fn a_path_or_a_type_that_is_not_there_is_found() {
        // In two parts: this file is searched as well.
        let absent = ["No", "SuchType"].concat();
        let page = format!(
            "`xtask/src/{{tidy,layers}}.rs` `MOUNT/.hearth/stats` `docs/no-such.md` `{absent}`\n"
        );
        assert_eq!(
            architecture(&page),
            [
                "ARCHITECTURE.md:1: there is no docs/no-such.md".to_owned(),
                format!("ARCHITECTURE.md:1: there is no {absent}")
            ]
        );
    }

    #[test]
    fn a_name_that_is_in_another_file_is_found() {
        let page = "`Rule` in `xtask/src/crates.rs`, `tidy::run` in `xtask/src`\n\
                    and `members()`\n  in `xtask/src/tidy.rs`\n\
                    | `xtask/src/{tidy,page}.rs` | `Findings`, and `Member` |\n\
                    | `xtask/src/crates.rs` | `Member`, `Rule`, `CI` |\n\
                    `Crate::edges` in `xtask/src/imports.rs`\n";
        assert_eq!(
            architecture(page),
            [
                "ARCHITECTURE.md:1: members is not in xtask/src/tidy.rs",
                "ARCHITECTURE.md:4: Member is not in xtask/src/tidy.rs, xtask/src/page.rs"
            ]
        );
    }
}
