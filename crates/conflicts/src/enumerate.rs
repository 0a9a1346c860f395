//! Enumeration of every pair of operations with every combination of arguments from the small
//! state.
//!
//! Combinations that differ only in the names of interchangeable things are one case.
//! Interchangeable are the two upper directories, two files of a directory, two empty directories,
//! two missing names, and the two sides of a pair of one call.

use super::case::{Case, Sharing};
use super::operation::{Dir, Name, Operation, Place, Slot};
use super::verb::Verb;
use std::collections::BTreeSet;

/// Returns every case, without equivalents.
pub fn cases() -> Vec<Case> {
    let mut found = BTreeSet::new();
    for (n, &a) in Verb::ALL.iter().enumerate() {
        for &b in &Verb::ALL[n..] {
            pair(a, b, &mut found);
        }
    }
    found.into_iter().collect()
}

/// Returns the cases of two verbs.
fn pair(a: Verb, b: Verb, found: &mut BTreeSet<Case>) {
    let second = operations(b, &[Dir::First, Dir::Second, Dir::FirstSub], true);
    for first in operations(a, &[Dir::First, Dir::FirstSub], false) {
        for &second in &second {
            if !is_needed(&first, &second) {
                continue;
            }
            for sharing in Sharing::ALL {
                let case = Case {
                    sides: [first, second],
                    sharing,
                    is_noatime: false,
                };
                if case.is_sound() {
                    found.insert(canonical(case));
                }
            }
        }
    }
}

/// Another descriptor or value is needed only where the two sides meet in it.
fn is_needed(a: &Operation, b: &Operation) -> bool {
    let same_file = a.descriptor().map(|it| it.0) == b.descriptor().map(|it| it.0);
    let slot = b.slot == Slot::First || same_file && a.descriptor().is_some();
    let value = b.value == 0 || a.verb.has_value() && a.on == b.on;
    slot && value
}

/// Returns every operation of a verb in `dirs`.
fn operations(verb: Verb, dirs: &[Dir], is_second: bool) -> Vec<Operation> {
    let mut all = Vec::new();
    let each_dir = if matches!(verb, Verb::StatFs | Verb::Fork) {
        &dirs[..1]
    } else {
        dirs
    };
    for &dir in each_dir {
        for &name in names(verb) {
            let on = Place { dir, name };
            for to in targets(verb, on) {
                let plain = Operation {
                    verb,
                    on,
                    to,
                    slot: Slot::First,
                    choice: 0,
                    value: 0,
                };
                all.extend(variants(plain, is_second));
            }
        }
    }
    if verb.has_descriptor() {
        // A descriptor that is not open is the same everywhere.
        all.retain(|op| !op.on.name.is_missing() || op.on.dir == dirs[0] && op.choice == 0);
    }
    if verb == Verb::Exit {
        // So is a child that has only its parent's descriptors.
        let here = |op: &Operation| op.on.dir == dirs[0] && op.on.name == Name::File;
        all.retain(|op| op.choice == 0 || here(op));
    }
    all
}

/// Returns the objects that a verb is tried on.
fn names(verb: Verb) -> &'static [Name] {
    use Name::{Empty, Empty2, File, File2, Itself, Link, Missing, Missing2, Sub};
    match verb {
        Verb::Open => &[File, File2, Link, Empty, Missing, Missing2],
        Verb::CreateNew => &[Missing, Missing2],
        Verb::CreateExisting => &[File, File2, Link],
        Verb::Exclusive | Verb::MkDir | Verb::Symlink => &[Missing, Missing2, File, File2],
        Verb::Stat | Verb::Access => &[File, File2, Link, Missing, Missing2, Itself],
        Verb::Truncate | Verb::Link => &[File, File2, Missing],
        Verb::GetXattr | Verb::SetXattr | Verb::ChMod | Verb::UTimens => {
            &[File, File2, Empty, Missing, Itself]
        }
        Verb::Unlink => &[File, File2, Link, Missing, Missing2],
        Verb::Rename => &[File, File2, Empty, Empty2, Link, Sub, Missing],
        Verb::RmDir => &[Empty, Empty2, Sub, Missing],
        Verb::ReadDir => &[Itself, Missing],
        Verb::StatFs | Verb::Fork => &[Itself],
        Verb::ReadLink => &[Link, File, Missing],
        Verb::Exit => &[File, File2],
        _ => &[File, File2, Missing],
    }
}

/// Returns the second names of a verb that has two.
fn targets(verb: Verb, on: Place) -> Vec<Option<Place>> {
    let beside = |name| Some(Place { dir: on.dir, name });
    let other = match on.dir {
        Dir::First => Dir::Second,
        Dir::Second | Dir::FirstSub | Dir::SecondSub => Dir::First,
    };
    let elsewhere = |name| Some(Place { dir: other, name });
    let (taken, there) = match on.name {
        Name::File => (Name::File2, Name::File),
        Name::File2 => (Name::File, Name::File),
        Name::Empty => (Name::Empty2, Name::Empty),
        _ => (Name::Empty, Name::Empty),
    };
    match (verb, on.name) {
        (Verb::Link | Verb::Rename, Name::Missing) => vec![beside(Name::Missing2)],
        (Verb::Rename, Name::Link) => vec![beside(Name::Missing)],
        // Only the upper directories have it.
        (Verb::Rename, Name::Sub) if on.dir.above().is_some() => Vec::new(),
        (Verb::Rename, Name::Sub) => vec![beside(Name::Missing), elsewhere(Name::Missing)],
        (Verb::Link | Verb::Rename, _) => vec![
            beside(Name::Missing),
            beside(Name::Missing2),
            beside(taken),
            elsewhere(Name::Missing),
            elsewhere(there),
        ],
        _ => vec![None],
    }
}

/// Returns the choices, values and descriptors of a call.
fn variants(plain: Operation, is_second: bool) -> Vec<Operation> {
    let choices: u8 = match plain.verb {
        Verb::Read | Verb::PRead | Verb::Write | Verb::PWrite | Verb::Dup2 | Verb::FLock => 3,
        Verb::LSeek | Verb::Truncate | Verb::Exit => 2,
        Verb::SetLock => 4,
        _ => 1,
    };
    let values = if plain.verb.has_value() && is_second {
        2
    } else {
        1
    };
    let slots: &[Slot] = if plain.descriptor().is_some() && is_second {
        &[Slot::First, Slot::Twin, Slot::Again]
    } else {
        &[Slot::First]
    };
    let mut all = Vec::new();
    for choice in 0..choices {
        for value in 0..values {
            for &slot in slots {
                let to = match (plain.verb, choice) {
                    // Onto the descriptor of another file of the same directory.
                    (Verb::Dup2, 2) if plain.descriptor().is_some() => Some(Place {
                        dir: plain.on.dir,
                        name: match plain.on.name {
                            Name::File => Name::File2,
                            _ => Name::File,
                        },
                    }),
                    _ => plain.to,
                };
                all.push(Operation {
                    to,
                    slot,
                    choice,
                    value,
                    ..plain
                });
            }
        }
    }
    all
}

/// Returns the case with canonical names: interchangeable things are named in the order of their
/// use.
fn canonical(case: Case) -> Case {
    let named = |sides: [Operation; 2]| {
        let mut names = Renaming::new(&sides);
        Case {
            sides: sides.map(|op| names.operation(op)),
            ..case
        }
    };
    let [a, b] = case.sides;
    // A descriptor of the second side alone has no meaning for the first.
    let is_mirrored = a.verb == b.verb && b.slot == Slot::First;
    let one = named([a, b]);
    if is_mirrored {
        one.min(named([b, a]))
    } else {
        one
    }
}

/// The replacement of names.
struct Renaming {
    swap_tops: Option<bool>,
    /// For each directory, as renamed: files, empty directories, missing names.
    swaps: [[Option<bool>; 3]; 4],
}

impl Renaming {
    fn new(sides: &[Operation; 2]) -> Renaming {
        let mut renaming = Renaming {
            swap_tops: None,
            swaps: [[None; 3]; 4],
        };
        let places = || sides.iter().flat_map(|op| op.places().collect::<Vec<_>>());
        for place in places() {
            let dir = renaming.dir(place.dir);
            if place.name == Name::Link {
                // The link tells the two files apart.
                renaming.swaps[dir as usize][0] = Some(false);
            }
        }
        renaming
    }

    fn operation(&mut self, op: Operation) -> Operation {
        Operation {
            on: self.place(op.on),
            to: op.to.map(|to| self.place(to)),
            ..op
        }
    }

    fn place(&mut self, place: Place) -> Place {
        let dir = self.dir(place.dir);
        let (kind, pair) = match place.name {
            Name::File | Name::File2 => (0, [Name::File, Name::File2]),
            Name::Empty | Name::Empty2 => (1, [Name::Empty, Name::Empty2]),
            Name::Missing | Name::Missing2 => (2, [Name::Missing, Name::Missing2]),
            name => return Place { dir, name },
        };
        let is_second = place.name == pair[1];
        let swap = *self.swaps[dir as usize][kind].get_or_insert(is_second);
        let name = pair[usize::from(is_second != swap)];
        Place { dir, name }
    }

    fn dir(&mut self, dir: Dir) -> Dir {
        let is_second = matches!(dir, Dir::Second | Dir::SecondSub);
        let swap = *self.swap_tops.get_or_insert(is_second);
        match (dir, swap) {
            (dir, false) => dir,
            (Dir::First, true) => Dir::Second,
            (Dir::Second, true) => Dir::First,
            (Dir::FirstSub, true) => Dir::SecondSub,
            (Dir::SecondSub, true) => Dir::FirstSub,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_verbs_has_cases_and_none_comes_twice() {
        let all = cases();
        let pairs: BTreeSet<_> = all
            .iter()
            .map(|case| case.sides.map(|op| op.verb))
            .collect();
        assert_eq!(pairs.len(), Verb::ALL.len() * (Verb::ALL.len() + 1) / 2);
        assert!(all.iter().all(|&case| canonical(case) == case));
        assert!(
            all.iter()
                .all(|&case| Case::of_code(&case.code()) == Some(case))
        );
    }

    #[test]
    fn files_that_a_link_tells_apart_are_not_interchangeable() {
        let place = |name| Place {
            dir: Dir::First,
            name,
        };
        let op = |verb, name| Operation {
            verb,
            on: place(name),
            to: None,
            slot: Slot::First,
            choice: 0,
            value: 0,
        };
        let of = |a, b| {
            canonical(Case {
                sides: [op(Verb::Open, a), op(Verb::Stat, b)],
                sharing: Sharing::Threads,
                is_noatime: false,
            })
        };
        assert_eq!(of(Name::File, Name::File2), of(Name::File2, Name::File));
        assert_ne!(of(Name::Link, Name::File), of(Name::Link, Name::File2));
    }
}
