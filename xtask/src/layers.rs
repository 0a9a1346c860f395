//! `cargo xtask layers`: crates import one way, and the files of a crate form no ring.
//!
//! An edge goes from a file to each file whose module it names by `crate::` or `super::`.
//! Two kinds of naming are no edges: a re-export (`pub use child::Item`), and a file naming the
//! `mod.rs` of the folder it lies in, because such a folder is one noun and its parts may share
//! what its `mod.rs` declares.

use crate::{crates, place, rust_text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Checks the tree, prints what it finds and fails when a rule is broken.
pub fn run() -> Result<(), String> {
    let found = tree();
    for failure in &found {
        println!("{failure}");
    }
    match found.len() {
        0 => Ok(()),
        count => Err(format!("{count} imports go the wrong way")),
    }
}

/// Everything that breaks a rule.
pub fn tree() -> Vec<String> {
    let members = crates::members();
    let names: BTreeSet<&str> = members.iter().map(|member| &*member.name).collect();
    let mut found = Vec::new();
    for member in &members {
        found.extend(direction(&member.name, &member.depends, &names));
        for ring in rings(&edges(&sources(&member.dir.join("src")))) {
            found.push(format!(
                "{}: ring between files: {}",
                member.name,
                ring.join(" -> ")
            ));
        }
    }
    found
}

/// Dependencies of one crate that its rule does not allow.
fn direction(name: &str, depends: &[String], members: &BTreeSet<&str>) -> Vec<String> {
    let Some(rule) = crates::RULES.iter().find(|rule| rule.name == name) else {
        return vec![format!("{name}: not in the order of the crates")];
    };
    depends
        .iter()
        .filter(|on| members.contains(&***on) || name == "xtask")
        .filter(|on| !rule.below.contains(&&***on))
        .map(|on| format!("{name} may not depend on {on}"))
        .collect()
}

/// Module path (`a::b`; empty for the crate root) and the code of each file of a crate.
fn sources(src: &Path) -> BTreeMap<String, String> {
    place::files(src, &[".rs"])
        .iter()
        .filter_map(|path| {
            let inside = path.strip_prefix(src).ok()?.with_extension("");
            let mut parts: Vec<_> = inside
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            if matches!(&**parts.last()?, "mod" | "lib") {
                parts.pop();
            }
            if parts.last().is_some_and(|last| last == "tests") {
                return None;
            }
            let text = std::fs::read_to_string(path).ok()?;
            let code = rust_text::without_tests(&rust_text::code(&text));
            Some((parts.join("::"), code))
        })
        .collect()
}

/// Which module names which.
fn edges(files: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<String>> {
    let mut graph = BTreeMap::new();
    for (module, code) in files {
        let mut to = BTreeSet::new();
        for path in named(module, code) {
            let target = home_of(&path, files);
            let is_ancestor = target.is_empty() || module.starts_with(&format!("{target}::"));
            if target != *module && !is_ancestor {
                to.insert(target);
            }
        }
        graph.insert(module.clone(), to);
    }
    graph
}

/// The longest beginning of `path` that is a module with a file.
fn home_of(path: &[String], files: &BTreeMap<String, String>) -> String {
    (0..=path.len())
        .rev()
        .map(|length| path[..length].join("::"))
        .find(|module| files.contains_key(module))
        .unwrap_or_default()
}

/// Absolute paths (without `crate`) that the code of `module` names, re-exports left out.
fn named(module: &str, code: &str) -> Vec<Vec<String>> {
    let own: Vec<String> = module
        .split("::")
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    let mut paths = Vec::new();
    for start in ["crate", "super", "self"] {
        for at in rust_text::words(code, start) {
            let rest = &code[at + start.len()..];
            let qualified = code[..at].trim_end().ends_with("::");
            if qualified || !rest.starts_with("::") || re_exported(code, at) {
                continue;
            }
            let base = match start {
                "crate" => Vec::new(),
                "self" => own.clone(),
                _ => own[..own.len().saturating_sub(1)].to_vec(),
            };
            expand(base, &rest[2..], &mut paths);
        }
    }
    paths
}

/// Whether the word at `at` stands in a `pub use`.
fn re_exported(code: &str, at: usize) -> bool {
    let begin = code[..at].rfind([';', '}', '{']).map_or(0, |end| end + 1);
    let statement = code[begin..at].trim_start();
    statement.contains("pub") && statement.trim_end().ends_with("use")
}

/// Reads `a::b`, `a::{b, c::d}` or `super::a` from `text`.
fn expand(mut path: Vec<String>, text: &str, paths: &mut Vec<Vec<String>>) {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        for part in split_group(group) {
            expand(path.clone(), part, paths);
        }
        return;
    }
    let word: String = text
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    match &*word {
        "" | "self" => {}
        "super" => {
            path.pop();
        }
        _ => path.push(word.clone()),
    }
    match text[word.len()..].strip_prefix("::") {
        Some(rest) if !word.is_empty() => expand(path, rest, paths),
        _ => paths.push(path),
    }
}

/// The parts of `a, b::{c, d}} ...`, up to the brace that closes the group.
fn split_group(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[begin..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// One ring for each set of files that reach each other, as a path that ends where it began.
fn rings(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for start in graph.keys() {
        if seen.contains(start) {
            continue;
        }
        if let Some(ring) = shortest_ring(graph, start) {
            seen.extend(ring.iter().cloned());
            found.push(ring);
        }
    }
    found
}

fn shortest_ring(graph: &BTreeMap<String, BTreeSet<String>>, start: &str) -> Option<Vec<String>> {
    let mut reached: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for next in graph.get(at).into_iter().flatten() {
            if next == start {
                let mut ring = vec![start.to_owned(), at.to_owned()];
                let mut back = at;
                while back != start {
                    back = reached[back];
                    ring.push(back.to_owned());
                }
                ring.reverse();
                if at == start {
                    ring.pop();
                }
                return Some(ring);
            }
            if !reached.contains_key(&**next) {
                reached.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files = files
            .iter()
            .map(|(module, code)| ((*module).to_owned(), (*code).to_owned()))
            .collect();
        rings(&edges(&files))
    }

    #[test]
    fn the_tree_has_no_import_that_goes_the_wrong_way() {
        let found = tree();
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn a_ring_through_a_group_and_super_is_found() {
        let found = graph(&[
            ("", "mod a; mod b;"),
            ("a", "use crate::{b::c::{D, E}, x};"),
            ("b", "pub use c::D;"),
            ("b::c", "fn f() { super::super::a::g() }"),
        ]);
        assert_eq!(found, [["a", "b::c", "a"]]);
    }

    #[test]
    fn re_exports_and_the_folder_s_own_door_are_no_ring() {
        let found = graph(&[
            ("", "pub use crate::a::A;"),
            (
                "a",
                "mod b; pub use self::b::B; pub(crate) use crate::a::b::C;",
            ),
            ("a::b", "use super::Trait; use crate::Thing;"),
            ("c", "use crate::a::B;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_dependency_on_a_higher_crate_is_found() {
        let members = BTreeSet::from(["hearth", "hearth-fuse", "hearth-model"]);
        let depends = ["hearth-fuse", "hearth-model", "libc"].map(str::to_owned);
        let found = direction("hearth", &depends, &members);
        assert_eq!(
            found,
            [
                "hearth may not depend on hearth-fuse",
                "hearth may not depend on hearth-model"
            ]
        );
    }

    #[test]
    fn a_manifest_is_read_without_its_test_dependencies() {
        let text = "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\n\
                    c = { path = \"../c\" }\n[dev-dependencies]\nd = \"1\"\n";
        let (name, depends) = crates::parse(text);
        assert_eq!((&*name, depends), ("a", vec!["b".into(), "c".into()]));
    }
}
