//! One call with its arguments, in terms of the small state that cases begin in.
//!
//! ```text
//! /d1   f g   files of two pages           /d2   the same, with s
//!       l     symbolic link to f
//!       e h   empty directories
//!       s     directory, not empty: the same names but s
//!       m n   not there
//! ```

use super::verb::Verb;
use std::fmt;

/// A directory of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dir {
    /// `/d1`
    First,
    /// `/d2`
    Second,
    /// `/d1/s`
    FirstSub,
    /// `/d2/s`
    SecondSub,
}

/// A name of the state, which exists in every directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// `f`: a file of two pages.
    File,
    /// `g`: another.
    File2,
    /// `l`: a symbolic link to `f`.
    Link,
    /// `e`: an empty directory.
    Empty,
    /// `h`: another.
    Empty2,
    /// `s`: a directory that is not empty; only in the two upper directories.
    Sub,
    /// `m`: not there.
    Missing,
    /// `n`: not there either.
    Missing2,
    /// The directory itself.
    Itself,
}

/// A place in the tree. For a call on a descriptor it is the open file; a missing name means that
/// the descriptor is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Directory.
    pub dir: Dir,
    /// Name in it.
    pub name: Name,
}

/// Which descriptor of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// The descriptor of both sides, if they share one.
    First,
    /// Made by `dup`: another descriptor of the same open file.
    Twin,
    /// Opened again: another open file.
    Again,
}

/// A call with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operation {
    /// Which call.
    pub verb: Verb,
    /// What it works on.
    pub on: Place,
    /// New name of `link` and `rename`; the open file that `dup2` closes.
    pub to: Option<Place>,
    /// Which descriptor.
    pub slot: Slot,
    /// Page of a read, write or seek (2 is beyond the end); length of `truncate`: one page
    /// less, two more; kind of lock, or its end, and its page; target of `dup2`; what an ending
    /// process has open.
    pub choice: u8,
    /// Which of two values is stored.
    pub value: u8,
}

impl Dir {
    /// All of them.
    pub const ALL: [Dir; 4] = [Dir::First, Dir::Second, Dir::FirstSub, Dir::SecondSub];

    /// Returns the parent directory, unless that is the root.
    pub fn above(self) -> Option<Dir> {
        match self {
            Dir::FirstSub => Some(Dir::First),
            Dir::SecondSub => Some(Dir::Second),
            Dir::First | Dir::Second => None,
        }
    }

    /// Returns its path.
    pub fn path(self) -> &'static str {
        match self {
            Dir::First => "/d1",
            Dir::Second => "/d2",
            Dir::FirstSub => "/d1/s",
            Dir::SecondSub => "/d2/s",
        }
    }
}

impl Name {
    /// Returns the names of a directory, the missing ones included.
    pub const ALL: [Name; 8] = [
        Name::File,
        Name::File2,
        Name::Link,
        Name::Empty,
        Name::Empty2,
        Name::Sub,
        Name::Missing,
        Name::Missing2,
    ];

    /// Returns the name as text.
    pub fn letter(self) -> &'static str {
        match self {
            Name::File => "f",
            Name::File2 => "g",
            Name::Link => "l",
            Name::Empty => "e",
            Name::Empty2 => "h",
            Name::Sub => "s",
            Name::Missing => "m",
            Name::Missing2 => "n",
            Name::Itself => "",
        }
    }

    /// Returns whether nothing has this name.
    pub fn is_missing(self) -> bool {
        matches!(self, Name::Missing | Name::Missing2)
    }

    /// Returns whether a file has this name.
    pub fn is_file(self) -> bool {
        matches!(self, Name::File | Name::File2)
    }
}

impl Operation {
    /// Numbers in a call's encoding.
    pub const CODE: usize = 8;

    /// Returns the call as numbers, for another program.
    pub fn code(&self) -> [u8; Operation::CODE] {
        // 255: there is no second name.
        let (dir, name) = self
            .to
            .map_or((255, 255), |to| (to.dir as u8, to.name as u8));
        let on = [self.on.dir as u8, self.on.name as u8];
        let (slot, choice) = (self.slot as u8, self.choice);
        [
            self.verb as u8,
            on[0],
            on[1],
            dir,
            name,
            slot,
            choice,
            self.value,
        ]
    }

    /// Returns the call of such numbers.
    pub fn of_code(code: &[u8]) -> Option<Operation> {
        let &[verb, dir, name, to_dir, to_name, slot, choice, value] = code else {
            return None;
        };
        let place = |dir: u8, name: u8| {
            Some(Place {
                dir: *Dir::ALL.get(usize::from(dir))?,
                name: *Name::ALL.get(usize::from(name)).unwrap_or(&Name::Itself),
            })
        };
        let slots = [Slot::First, Slot::Twin, Slot::Again];
        Some(Operation {
            verb: *Verb::ALL.get(usize::from(verb))?,
            on: place(dir, name)?,
            to: place(to_dir, to_name),
            slot: *slots.get(usize::from(slot))?,
            choice,
            value,
        })
    }

    /// Returns whether each repetition needs a name of its own in place of `on`: the call takes or
    /// gives that name.
    pub fn varies_on(&self) -> bool {
        match self.verb {
            Verb::CreateNew | Verb::Exclusive | Verb::MkDir | Verb::Symlink => {
                self.on.name.is_missing()
            }
            Verb::Unlink | Verb::Rename => !self.on.name.is_missing(),
            Verb::RmDir => matches!(self.on.name, Name::Empty | Name::Empty2),
            _ => false,
        }
    }

    /// Returns whether each repetition needs a name of its own in place of `to`.
    pub fn varies_to(&self) -> bool {
        match self.verb {
            Verb::Link => self.to.is_some_and(|to| to.name.is_missing()),
            Verb::Rename => !self.on.name.is_missing(),
            _ => false,
        }
    }

    /// Returns whether each repetition needs a descriptor of its own.
    pub fn varies_descriptor(&self) -> bool {
        self.verb == Verb::Close
    }

    /// Returns the open file that it works on.
    pub fn descriptor(&self) -> Option<(Place, Slot)> {
        let is_open = self.verb.has_descriptor() && self.on.name.is_file();
        is_open.then_some((self.on, self.slot))
    }

    /// Returns the places that it names.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        [Some(self.on), self.to].into_iter().flatten()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Name::Itself => write!(f, "{}", self.dir.path()),
            name => write!(f, "{}/{}", self.dir.path(), name.letter()),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.verb.name())?;
        match (self.verb, self.descriptor()) {
            (Verb::StatFs | Verb::Fork, _) => {}
            (Verb::Exit, _) if self.choice == 1 => write!(f, "child")?,
            (Verb::Exit, _) => write!(f, "{} open", self.on)?,
            (verb, None) if verb.has_descriptor() => write!(f, "bad fd")?,
            (_, Some((place, Slot::First))) => write!(f, "fd of {place}")?,
            (_, Some((place, Slot::Twin))) => write!(f, "dup of fd of {place}")?,
            (_, Some((place, Slot::Again))) => write!(f, "2nd fd of {place}")?,
            _ => write!(f, "{}", self.on)?,
        }
        if let Some(to) = self.to {
            write!(f, ", {to}")?;
        }
        match self.verb {
            Verb::Read | Verb::PRead | Verb::Write | Verb::PWrite | Verb::LSeek => {
                write!(f, ", page {}", self.choice)?;
            }
            Verb::Truncate => write!(f, ", {} pages", [1, 4][usize::from(self.choice)])?,
            Verb::FLock => {
                let kinds = ["shared", "exclusive", "unlock"];
                write!(f, ", {}", kinds[usize::from(self.choice)])?;
            }
            Verb::SetLock => {
                let kinds = ["shared", "exclusive", "unlock", "exclusive, page 1"];
                write!(f, ", {}", kinds[usize::from(self.choice)])?;
            }
            Verb::Dup2 if self.choice < 2 => write!(f, ", free {}", self.choice)?,
            _ => {}
        }
        if self.verb.has_value() {
            write!(f, ", value {}", self.value)?;
        }
        write!(f, ")")
    }
}
