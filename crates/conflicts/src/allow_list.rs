//! The allow-list: conflicts that a rule of POSIX requires. It is a table in
//! `docs/design/conflicts.md`, which is read here, so that the page and the tool agree.
//!
//! A case is allowed if every conflicting line of it is explained: a rule that names both calls and
//! their relation also names where in the source the conflict lies.

use super::case::Case;
use super::operation::{Name, Operation, Place};
use super::overlap::Conflict;
use super::verb::Verb;

/// The code that copies bytes of files.
const BYTES: &str = "atomic_bytes/";

/// The heading of the table.
const HEADING: &str = "## Allowed";

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name in reports.
    pub name: String,
    /// The calls of either side.
    pub calls: [Vec<Verb>; 2],
    /// What the two have in common.
    pub relation: Relation,
    /// Files and functions, one of which must be on the stack of each side that writes.
    pub places: Vec<String>,
}

/// What two calls have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// One open file.
    OpenFile,
    /// One file.
    File,
    /// One page of a file, or its end.
    Page,
    /// One name.
    Name,
    /// One process.
    Process,
    /// The first call is about a directory, the other one about a name in it.
    Within,
    /// Both move a directory to another directory.
    Trees,
    /// Anything.
    Any,
}

/// Reads the table from the page.
///
/// # Errors
/// Names the wrong row and says what is wrong.
pub fn parse(page: &str) -> Result<Vec<Rule>, String> {
    let (_, rest) = page
        .split_once(HEADING)
        .ok_or(format!("no heading '{HEADING}'"))?;
    let lines = rest.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| rule(row).map_err(|what| format!("{what} in the row {row}")))
        .collect()
}

fn rule(row: &str) -> Result<Rule, String> {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [name, one, other, relation, places, why] = cells[..] else {
        return Err("not six columns".into());
    };
    if name.is_empty() || why.is_empty() {
        return Err("no name or no reason".into());
    }
    Ok(Rule {
        name: name.to_owned(),
        calls: [calls(one)?, calls(other)?],
        relation: match relation {
            "one open file" => Relation::OpenFile,
            "one file" => Relation::File,
            "one page" => Relation::Page,
            "one name" => Relation::Name,
            "one process" => Relation::Process,
            "a directory and what is in it" => Relation::Within,
            "directories that move" => Relation::Trees,
            "any" => Relation::Any,
            other => return Err(format!("unknown relation '{other}'")),
        },
        places: words(places),
    })
}

fn calls(cell: &str) -> Result<Vec<Verb>, String> {
    let call = |word: String| match &*word {
        "any" => Ok(Verb::ALL.to_vec()),
        word => Ok(vec![
            Verb::of(word).ok_or(format!("unknown call '{word}'"))?,
        ]),
    };
    let each: Result<Vec<Vec<Verb>>, String> = words(cell).into_iter().map(call).collect();
    Ok(each?.concat())
}

/// Returns the parts of a cell that are set as code.
fn words(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

impl Rule {
    /// Returns whether it names the two calls of a case and their relation holds.
    pub fn is_about(&self, case: &Case) -> bool {
        let [a, b] = &case.sides;
        let fit = |one: &Operation, other: &Operation| {
            self.calls[0].contains(&one.verb)
                && self.calls[1].contains(&other.verb)
                && self.relation.holds(case, [one, other])
        };
        fit(a, b) || fit(b, a)
    }

    /// Returns whether it explains a conflict whose two sides have these source lines on their
    /// stacks, innermost first. A side that writes must make the access at one of the rule's
    /// places; a caller further out does not count. No rule explains false sharing, except one with
    /// `atomic_bytes/` among its places: bytes of a file lie where the program puts them.
    pub fn explains(&self, conflict: &Conflict, stacks: &[Vec<String>; 2]) -> bool {
        let here = |line: &String| self.places.iter().any(|place| line.contains(place));
        let is_here =
            |side: usize| !conflict.writes[side] || access(&stacks[side]).iter().any(here);
        let copies = |stack: &Vec<String>| stack.iter().any(|line| line.contains(BYTES));
        let are_bytes = self.places.iter().any(|place| place == BYTES) && stacks.iter().all(copies);
        (!conflict.is_false_sharing || are_bytes) && is_here(0) && is_here(1)
    }
}

/// Returns the part of a stack that makes the access: the innermost line of the filesystem, and
/// what that line uses.
fn access(stack: &[String]) -> &[String] {
    let own = stack.iter().position(|line| line.starts_with("fs/"));
    &stack[..own.map_or(stack.len(), |at| at + 1)]
}

impl Relation {
    fn holds(self, case: &Case, [a, b]: [&Operation; 2]) -> bool {
        let common = |mine: fn(&Operation) -> Vec<Place>| {
            let theirs = mine(b);
            mine(a).iter().any(|place| theirs.contains(place))
        };
        match self {
            Relation::OpenFile => case.shares_open_file(),
            // A child that ends has its parent's open files.
            Relation::File => common(files) || case.shares_open_file(),
            Relation::Page => common(files) && is_one_page(a, b),
            Relation::Name => common(|op| op.places().chain(files(op)).collect()),
            Relation::Process => case.sharing == super::case::Sharing::Threads,
            Relation::Within => is_within(b, a),
            Relation::Trees => moves_tree(a) && moves_tree(b),
            Relation::Any => true,
        }
    }
}

/// Returns whether two calls on contents touch one page, or the end of the file.
fn is_one_page(a: &Operation, b: &Operation) -> bool {
    let appends = [a, b].map(|op| op.verb == Verb::Append);
    a.choice == b.choice || appends == [true, true]
}

/// Returns whether the call moves a directory to another parent.
fn moves_tree(op: &Operation) -> bool {
    let is_dir = matches!(op.on.name, Name::Empty | Name::Empty2 | Name::Sub);
    is_dir && op.to.is_some_and(|to| to.dir != op.on.dir)
}

/// Returns whether `above` concerns a directory in which `op` has a name.
fn is_within(op: &Operation, above: &Operation) -> bool {
    let inside = |place: Place, above: Place| place.to_string().starts_with(&format!("{above}/"));
    op.places()
        .any(|place| above.places().any(|above| inside(place, above)))
}

/// Returns the inodes that a call concerns, by their first name.
fn files(op: &Operation) -> Vec<Place> {
    let through = |place: Place| match place.name {
        Name::Link => Place {
            name: Name::File,
            ..place
        },
        _ => place,
    };
    op.places().map(through).collect()
}

#[cfg(test)]
mod tests {
    use super::super::operation::{Dir, Slot};
    use super::*;

    #[test]
    fn the_allow_list_of_the_page_parses() {
        let page = include_str!("../../../docs/design/conflicts.md");
        assert!(!parse(page).expect("every row is right").is_empty());
    }

    /// A renamed file, type or function would leave its conflicts unexplained.
    #[test]
    fn every_place_of_the_allow_list_is_in_the_source() {
        let page = include_str!("../../../docs/design/conflicts.md");
        let mut sources = Vec::new();
        for krate in ["fs", "sync"] {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("..")
                .join(krate);
            collect(&root.join("src"), &mut sources);
        }
        for place in parse(page)
            .unwrap()
            .into_iter()
            .flat_map(|rule| rule.places)
        {
            let is_there = |(path, text): &(String, String)| match place.split_once("::") {
                Some((_, "")) => text.contains(&format!(" {}", &place[..place.len() - 2])),
                Some((owner, function)) => {
                    let owns = text.contains(&format!(" {owner}")) || path.contains(owner);
                    owns && text.contains(&format!("fn {function}"))
                }
                None => path.contains(&place) || text.contains(&format!("fn {place}")),
            };
            assert!(sources.iter().any(is_there), "no {place} in the source");
        }
    }

    fn collect(folder: &std::path::Path, sources: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).expect("a folder of the source") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => collect(&path, sources),
                false => {
                    let text = std::fs::read_to_string(&path).expect("a source file");
                    sources.push((path.to_string_lossy().into_owned(), text));
                }
            }
        }
    }

    #[test]
    fn a_wrong_row_of_the_allow_list_is_named() {
        let table = "## Allowed\n\n| a | b | c | d | e | f |\n|-|-|-|-|-|-|\n";
        let wrong = |row: &str| parse(&format!("{table}{row}\n")).unwrap_err();
        assert!(wrong("| n | `opan` | `any` | any | `x` | why |").contains("'opan'"));
        assert!(wrong("| n | `open` | `any` | some | `x` | why |").contains("'some'"));
        assert!(wrong("| n | `open` | `any` | any |").contains("six columns"));
    }

    #[test]
    fn a_rule_explains_writes_at_its_places_but_not_false_sharing() {
        let table = "## Allowed\n\n| a | b | c | d | e | f |\n|-|-|-|-|-|-|\n";
        let row = "| n | `open` | `any` | any | `Meta::update` | why |\n";
        let rule = &parse(&format!("{table}{row}")).unwrap()[0];
        let conflict = |writes, is_false_sharing| Conflict {
            address: 0,
            sides: Default::default(),
            writes,
            is_false_sharing,
        };
        let stack = |line: &str| vec!["sync/seq.rs:1 SeqLock::write".to_owned(), line.to_owned()];
        let [at, off] = [
            "fs/inode/meta.rs:2 Meta::update",
            "fs/ops/io.rs:3 io::write",
        ];
        let stacks = [stack(at), stack(off)];
        assert!(rule.explains(&conflict([true, false], false), &stacks));
        assert!(!rule.explains(&conflict([true, true], false), &stacks));
        assert!(!rule.explains(&conflict([true, false], true), &stacks));
        // A place that is called from there does not count.
        let deeper = "fs/quota/ledger.rs:4 Ledger::charge".to_owned();
        let below = stacks.map(|stack| [vec![deeper.clone()], stack].concat());
        assert!(!rule.explains(&conflict([true, false], false), &below));
    }

    #[test]
    fn a_rule_for_bytes_of_files_explains_their_false_sharing() {
        let table = "## Allowed\n\n| a | b | c | d | e | f |\n|-|-|-|-|-|-|\n";
        let rule = |places: &str| {
            let row = format!("| n | `write` | `write` | any | {places} | why |\n");
            parse(&format!("{table}{row}")).unwrap().remove(0)
        };
        let (of_bytes, of_pages) = (rule("`Page::write` `atomic_bytes/`"), rule("`Page::write`"));
        let conflict = Conflict {
            address: 0,
            sides: Default::default(),
            writes: [true, true],
            is_false_sharing: true,
        };
        let page = "fs/data/page.rs:2 Page::write".to_owned();
        let store = "sync/atomic.rs:7 AtomicU64::store".to_owned();
        let bytes = vec![
            store,
            "sync/atomic_bytes/copy.rs:1 copy::store".to_owned(),
            page.clone(),
        ];
        let head = vec!["sync/seq.rs:1 SeqLock::write".to_owned(), page];
        let both = [bytes.clone(), bytes.clone()];
        assert!(of_bytes.explains(&conflict, &both));
        assert!(!of_pages.explains(&conflict, &both));
        assert!(!of_bytes.explains(&conflict, &[bytes, head]));
    }

    #[test]
    fn the_relation_within_holds_only_for_a_directory_and_its_contents() {
        let call = |dir, name| Operation {
            verb: Verb::Unlink,
            on: Place { dir, name },
            to: None,
            slot: Slot::First,
            choice: 0,
            value: 0,
        };
        let below = call(Dir::FirstSub, Name::File);
        assert!(is_within(&below, &call(Dir::First, Name::Sub)));
        assert!(!is_within(&call(Dir::First, Name::Sub), &below));
        assert!(!is_within(&below, &call(Dir::Second, Name::Sub)));
        assert!(!is_within(&below, &call(Dir::FirstSub, Name::File2)));
    }
}
