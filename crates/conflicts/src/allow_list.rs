//! The allow-list: conflicts that a rule of POSIX asks for. `docs/design/conflicts.md` holds it as
//! a table that is read here, so that what the page says is what the tool does.
//!
//! A case is allowed if every line of it in conflict is explained: a rule that names both calls and
//! their relation also names where in the source the conflict lies.

use super::case::Case;
use super::operation::{Name, Operation, Place};
use super::overlap::Conflict;
use super::verb::Verb;

/// Where bytes of files are copied.
const BYTES: &str = "words/";

/// Where the table begins.
const HEADING: &str = "## Allowed";

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What reports call it.
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
    /// Nothing in particular.
    Any,
}

/// Reads the table out of the page.
///
/// # Errors
/// Which row is wrong, and how.
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

/// The words of a cell that are set as code.
fn words(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

impl Rule {
    /// Whether it is about these two calls.
    pub fn is_about(&self, case: &Case) -> bool {
        let [a, b] = &case.sides;
        let fit = |one: &Operation, other: &Operation| {
            self.calls[0].contains(&one.verb)
                && self.calls[1].contains(&other.verb)
                && self.relation.holds(case, [one, other])
        };
        fit(a, b) || fit(b, a)
    }

    /// Whether it explains a conflict whose two sides have these source lines on their stacks,
    /// innermost first: whoever writes must be at one of its places, which is where the filesystem
    /// makes the access and not one from which that is called. That two things lie on one line no
    /// rule asks for, but one that has `words/` among its places: bytes of a file lie where the
    /// program puts them.
    pub fn explains(&self, conflict: &Conflict, stacks: &[Vec<String>; 2]) -> bool {
        let here = |line: &String| self.places.iter().any(|place| line.contains(place));
        let is_here =
            |side: usize| !conflict.writes[side] || access(&stacks[side]).iter().any(here);
        let copies = |stack: &Vec<String>| stack.iter().any(|line| line.contains(BYTES));
        let are_bytes = self.places.iter().any(|place| place == BYTES) && stacks.iter().all(copies);
        (!conflict.is_false_sharing || are_bytes) && is_here(0) && is_here(1)
    }
}

/// The part of a stack that makes the access: what the filesystem uses for it, and its own line
/// that does.
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
            // What a child that ends has open is its parent's.
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

/// Whether two calls on contents meet in a page, or at the end.
fn is_one_page(a: &Operation, b: &Operation) -> bool {
    let appends = [a, b].map(|op| op.verb == Verb::Append);
    a.choice == b.choice || appends == [true, true]
}

/// Whether a directory gets another one above.
fn moves_tree(op: &Operation) -> bool {
    let is_dir = matches!(op.on.name, Name::Empty | Name::Empty2 | Name::Sub);
    is_dir && op.to.is_some_and(|to| to.dir != op.on.dir)
}

/// Whether `above` concerns a directory in which `op` has a name.
fn is_within(op: &Operation, above: &Operation) -> bool {
    let inside = |place: Place, above: Place| place.to_string().starts_with(&format!("{above}/"));
    op.places()
        .any(|place| above.places().any(|above| inside(place, above)))
}

/// The inodes that a call concerns, by their first name.
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
    fn the_table_of_the_page_can_be_read() {
        let page = include_str!("../../../docs/design/conflicts.md");
        assert!(!parse(page).expect("every row is right").is_empty());
    }

    #[test]
    fn a_wrong_row_is_named() {
        let table = "## Allowed\n\n| a | b | c | d | e | f |\n|-|-|-|-|-|-|\n";
        let wrong = |row: &str| parse(&format!("{table}{row}\n")).unwrap_err();
        assert!(wrong("| n | `opan` | `any` | any | `x` | why |").contains("'opan'"));
        assert!(wrong("| n | `open` | `any` | some | `x` | why |").contains("'some'"));
        assert!(wrong("| n | `open` | `any` | any |").contains("six columns"));
    }

    #[test]
    fn a_rule_explains_writes_at_its_places_and_no_false_sharing() {
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
        // What it calls is somewhere else.
        let deeper = "fs/quota/ledger.rs:4 Ledger::charge".to_owned();
        let below = stacks.map(|stack| [vec![deeper.clone()], stack].concat());
        assert!(!rule.explains(&conflict([true, false], false), &below));
    }

    #[test]
    fn bytes_of_a_file_lie_side_by_side_because_the_program_put_them_so() {
        let table = "## Allowed\n\n| a | b | c | d | e | f |\n|-|-|-|-|-|-|\n";
        let rule = |places: &str| {
            let row = format!("| n | `write` | `write` | any | {places} | why |\n");
            parse(&format!("{table}{row}")).unwrap().remove(0)
        };
        let (of_bytes, of_pages) = (rule("`Page::write` `words/`"), rule("`Page::write`"));
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
            "sync/words/copy.rs:1 copy::store".to_owned(),
            page.clone(),
        ];
        let head = vec!["sync/seq.rs:1 SeqLock::write".to_owned(), page];
        let both = [bytes.clone(), bytes.clone()];
        assert!(of_bytes.explains(&conflict, &both));
        assert!(!of_pages.explains(&conflict, &both));
        assert!(!of_bytes.explains(&conflict, &[bytes, head]));
    }

    #[test]
    fn what_is_in_a_directory_is_within_it_and_nothing_else_is() {
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
