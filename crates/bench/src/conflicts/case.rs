//! Which operations are tried against each other, and where.

use super::verb::Verb;
use std::fmt;

/// Where the second operation works, seen from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// On the same file and page, the same names.
    Same,
    /// On another page of the same file.
    OtherPage,
    /// On another name of the same directory.
    Sibling,
    /// In another directory.
    Elsewhere,
}

/// One pair of operations in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// What the first core does.
    pub a: Verb,
    /// What the second core does.
    pub b: Verb,
    /// Where, seen from the first.
    pub place: Place,
    /// Both are threads of one process, whose descriptors are handed out per core; otherwise each
    /// is a process of its own.
    pub is_one_process: bool,
    /// Reads leave the access time alone, because the pair commutes only then.
    pub is_noatime: bool,
    /// How often each does it.
    pub window: usize,
}

/// Repetitions that show costs which are paid now and then.
pub const LONG: usize = 256;

impl Case {
    /// The cases to try: every unordered pair of verbs, everywhere, in one process and in two, once
    /// and [`LONG`] times. Quick: the long windows only where a verb meets itself.
    pub fn all(quick: bool) -> Vec<Case> {
        let mut cases = Vec::new();
        for (n, a) in Verb::ALL.into_iter().enumerate() {
            for b in Verb::ALL.into_iter().skip(n) {
                for place in [
                    Place::Same,
                    Place::OtherPage,
                    Place::Sibling,
                    Place::Elsewhere,
                ] {
                    if place == Place::OtherPage && !(a.has_page() && b.has_page()) {
                        continue;
                    }
                    for is_one_process in [true, false] {
                        for window in [1, LONG] {
                            if quick && window > 1 && (a != b || !is_one_process) {
                                continue;
                            }
                            let is_noatime = false;
                            let case = Case {
                                a,
                                b,
                                place,
                                is_one_process,
                                is_noatime,
                                window,
                            };
                            cases.push(case);
                        }
                    }
                }
            }
        }
        cases
    }

    /// Lines that a window may share and still count as free: none in a window of one, and what
    /// reclamation costs now and then in a long one.
    pub fn budget(&self) -> usize {
        match self.window {
            1 => 0,
            _ if self.a.only_reads() && self.b.only_reads() => 4,
            _ => 16,
        }
    }
}

impl Place {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Place::Same => "same file",
            Place::OtherPage => "other page",
            Place::Sibling => "same directory",
            Place::Elsewhere => "other directory",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes = if self.is_one_process {
            "one process"
        } else {
            "two processes"
        };
        let (a, b) = (self.a.name(), self.b.name());
        write!(f, "{a}|{b}, {}, {processes}", self.place.name())?;
        if self.is_noatime {
            write!(f, ", noatime")?;
        }
        if self.window > 1 {
            write!(f, ", {} times", self.window)?;
        }
        Ok(())
    }
}
