//! `cargo xtask layers`: crates import one way, and the files of a crate form no ring.
//!
//! An edge goes from a file to each file that defines something it names, re-exports followed
//! (`imports.rs`). Two kinds of naming are no edges: a re-export itself (`pub use child::Item`),
//! and a file naming what the `mod.rs` of a folder around it defines, because such a folder is one
//! noun and its parts may share what its `mod.rs` declares.

use crate::crates;
use crate::imports::Crate;
use std::collections::{BTreeMap, BTreeSet};

/// Which file needs which.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Files of one crate that form a ring today, and why they may until it is opened.
struct KnownRing {
    name: &'static str,
    /// Every file of the ring lies in one of these modules.
    inside: &'static [&'static str],
    /// How many files it has at most; may only fall.
    files_max: usize,
    reason: &'static str,
}

const KNOWN_RINGS: &[KnownRing] = &[];

/// The most floors that a crate may have, where it has a limit.
const FLOORS_MAX: &[(&str, usize)] = &[("hearth-fuse", 8)];

/// Checks the tree, prints the floors of each crate and what breaks a rule, and fails for that.
pub fn run() -> Result<(), String> {
    let found = tree();
    for line in &found.floors {
        println!("{line}");
    }
    for failure in &found.failures {
        println!("{failure}");
    }
    match found.failures.len() {
        0 => Ok(()),
        count => Err(format!("{count} rules broken")),
    }
}

/// What the check found.
#[derive(Debug, Default)]
pub struct Report {
    /// Each breaks a rule.
    pub failures: Vec<String>,
    /// Files and floors of each crate.
    pub floors: Vec<String>,
}

/// Checks all crates.
pub fn tree() -> Report {
    let members = crates::members();
    let names: BTreeSet<&str> = members.iter().map(|member| &*member.name).collect();
    let mut found = Report::default();
    for member in &members {
        let name = &*member.name;
        found
            .failures
            .extend(direction(name, &member.depends, &names));
        let sources = Crate::read(&member.dir.join("src"));
        let graph = sources.edges();
        let known: Vec<&KnownRing> = KNOWN_RINGS.iter().filter(|k| k.name == name).collect();
        found.failures.extend(rings_not_known(name, &graph, &known));
        let floors = floors(&graph);
        let (files, lines) = (graph.len(), sources.lines());
        let shown = format!(
            "{name}: {files} files, {lines} lines of code, {} floors",
            floors.len()
        );
        let limit = FLOORS_MAX.iter().find(|(of, _)| *of == name);
        if let Some((_, limit)) = limit.filter(|(_, limit)| floors.len() > *limit) {
            let chain = floors.join(" -> ");
            found
                .failures
                .push(format!("{shown} (at most {limit}): {chain}"));
        }
        found.floors.push(shown);
    }
    found
}

/// The rings of a crate that the list does not allow, and what is on the list in vain.
fn rings_not_known(name: &str, graph: &Graph, known: &[&KnownRing]) -> Vec<String> {
    let mut found = Vec::new();
    let mut used = vec![false; known.len()];
    for ring in components(graph).into_iter().filter(|c| c.len() > 1) {
        let is_inside = |file: &String, folder: &&str| {
            file == folder || file.starts_with(&format!("{folder}::"))
        };
        let allows = |k: &&KnownRing| {
            let inside = |file| k.inside.iter().any(|folder| is_inside(file, folder));
            ring.len() <= k.files_max && ring.iter().all(inside)
        };
        match known.iter().position(allows) {
            Some(at) => used[at] = true,
            None => {
                let shown = shortest_ring(graph, &ring).join(" -> ");
                let files: Vec<&str> = ring.iter().map(|file| &**file).collect();
                let (count, files) = (files.len(), files.join(" "));
                found.push(format!(
                    "{name}: ring of {count} files, with {shown}: {files}"
                ));
            }
        }
    }
    for (known, _) in known.iter().zip(used).filter(|(_, used)| !used) {
        let KnownRing { inside, reason, .. } = known;
        found.push(format!(
            "{name}: the ring inside {} is open ({reason}): take it off the list",
            inside.join(", ")
        ));
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

/// Sets of files that reach each other, each after all those that it needs.
fn components(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reaches: BTreeMap<&String, BTreeSet<String>> = graph
        .keys()
        .map(|file| (file, reached(graph, file)))
        .collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    let mut order: Vec<&String> = graph.keys().collect();
    // What is needed reaches fewer files than what needs it.
    order.sort_by_key(|file| reaches[file].len());
    for file in order {
        if found.iter().any(|component| component.contains(file)) {
            continue;
        }
        let mutual = |other: &&String| reaches[*other].contains(file);
        found.push(reaches[file].iter().filter(mutual).cloned().collect());
    }
    found
}

/// Every file that `start` needs, itself among them.
fn reached(graph: &Graph, start: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::from([start.to_owned()]);
    let mut open = vec![start.to_owned()];
    while let Some(at) = open.pop() {
        for next in graph.get(&at).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    seen
}

/// The longest chain of files of which each needs the next; the files of a ring count as one.
fn floors(graph: &Graph) -> Vec<String> {
    let mut chains: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for component in components(graph) {
        let needed = component.iter().flat_map(|file| &graph[file]);
        let below = needed.filter(|file| !component.contains(*file));
        let longest = below
            .filter_map(|file| chains.get(file))
            .max_by_key(|chain| chain.len());
        let mut chain = component.iter().take(1).cloned().collect::<Vec<_>>();
        chain.extend(longest.into_iter().flatten().cloned());
        for file in component {
            chains.insert(file, chain.clone());
        }
    }
    chains
        .into_values()
        .max_by_key(Vec::len)
        .unwrap_or_default()
}

/// The shortest path through files of `ring` that ends where it began.
fn shortest_ring(graph: &Graph, ring: &BTreeSet<String>) -> Vec<String> {
    ring.iter()
        .filter_map(|start| way_back(graph, start))
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

fn way_back(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for next in graph.get(at).into_iter().flatten() {
            if next == start {
                let mut way = vec![start.to_owned()];
                let mut back = at;
                while back != start {
                    way.push(back.to_owned());
                    back = from[back];
                }
                way.push(start.to_owned());
                way.reverse();
                return Some(way);
            }
            if !from.contains_key(&**next) {
                from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let files = files
            .iter()
            .map(|(module, code)| ((*module).to_owned(), (*code).to_owned()))
            .collect();
        Crate::new(files).edges()
    }

    fn rings(files: &[(&str, &str)]) -> Vec<String> {
        rings_not_known("c", &graph(files), &[])
    }

    #[test]
    fn the_tree_has_no_import_that_goes_the_wrong_way() {
        let found = tree().failures;
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn a_ring_through_a_group_and_super_is_found() {
        let found = rings(&[
            ("", "mod a; mod b;"),
            ("a", "use crate::{b::c::{D, E}, x};"),
            ("b", "mod c; pub use c::D;"),
            ("b::c", "fn f() { super::super::a::g() }"),
        ]);
        assert_eq!(found, ["c: ring of 2 files, with a -> b::c -> a: a b::c"]);
    }

    #[test]
    fn a_ring_through_re_exports_of_two_folders_is_found() {
        let found = rings(&[
            ("", "mod a; mod b;"),
            ("a", "mod x; pub use self::x::X;"),
            ("a::x", "use crate::b::Y; pub struct X;"),
            ("b", "mod y; pub use y::*;"),
            ("b::y", "use crate::a; pub struct Y(a::X);"),
        ]);
        assert_eq!(
            found,
            ["c: ring of 2 files, with a::x -> b::y -> a::x: a::x b::y"]
        );
    }

    #[test]
    fn a_ring_through_what_the_folder_s_own_door_re_exports_is_found() {
        let found = rings(&[
            ("a", "mod x; mod z; pub use x::X; use z::Z as Other;"),
            ("a::x", "use super::Other; pub struct X;"),
            ("a::z", "pub struct Z(super::X);"),
        ]);
        assert_eq!(
            found,
            ["c: ring of 2 files, with a::x -> a::z -> a::x: a::x a::z"]
        );
    }

    #[test]
    fn a_ring_on_the_list_is_no_failure_until_it_grows_or_is_open() {
        let two = graph(&[("a", "use crate::b::B;"), ("b", "use crate::a::A;")]);
        let known = |files_max| KnownRing {
            name: "c",
            inside: &["a", "b"],
            files_max,
            reason: "being opened",
        };
        assert!(rings_not_known("c", &two, &[&known(2)]).is_empty());
        assert_eq!(rings_not_known("c", &two, &[&known(1)]).len(), 2);
        let open = graph(&[("a", "use crate::b::B;"), ("b", "")]);
        assert_eq!(rings_not_known("c", &open, &[&known(2)]).len(), 1);
    }

    #[test]
    fn re_exports_and_what_the_folder_s_own_door_defines_are_no_ring() {
        let found = rings(&[
            ("", "pub use crate::a::A; pub struct Thing;"),
            (
                "a",
                "mod b; pub use self::b::B; pub(crate) use crate::a::b::C; trait Trait {}",
            ),
            ("a::b", "use super::Trait; use crate::Thing;"),
            ("c", "use crate::a::B;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn floors_are_the_longest_chain_and_a_ring_is_one() {
        let found = floors(&graph(&[
            ("a", "use crate::b::B; use crate::d::D;"),
            ("b", "use crate::c::C;"),
            ("c", "use crate::b::B; use crate::d::D;"),
            ("d", ""),
        ]));
        assert_eq!(found, ["a", "b", "d"]);
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
