//! Comparing outcomes of two systems.

use std::collections::BTreeMap;

use crate::outcome::{Attr, Entry, Outcome};

/// Which inode of the other system is which inode of the model, learnt as they appear.
#[derive(Debug, Default)]
pub struct Numbers {
    theirs: BTreeMap<u64, u64>,
    ours: BTreeMap<u64, u64>,
}

impl Numbers {
    /// Whether the two numbers can name the same inode; remembers that they do.
    pub fn same(&mut self, ours: u64, theirs: u64) -> bool {
        *self.theirs.entry(ours).or_insert(theirs) == theirs
            && *self.ours.entry(theirs).or_insert(ours) == ours
    }
}

impl Outcome {
    /// Whether another system's outcome is what the model (`self`) expects.
    pub fn agrees(&self, found: &Outcome, numbers: &mut Numbers) -> bool {
        match (self, found) {
            (Outcome::Unspecified, _) => true,
            (Outcome::Attr(ours), Outcome::Attr(theirs)) => {
                numbers.same(ours.ino, theirs.ino)
                    && *ours
                        == Attr {
                            ino: ours.ino,
                            ..*theirs
                        }
            }
            (Outcome::Entries(ours), Outcome::Entries(theirs)) => {
                ours.len() == theirs.len()
                    && ours
                        .iter()
                        .zip(theirs)
                        .all(|(a, b)| same_entry(a, b, numbers))
            }
            (Outcome::Locks(ours), Outcome::Locks(theirs)) => match theirs.as_slice() {
                [] => ours.is_empty(),
                [one] => ours.contains(one),
                _ => false,
            },
            _ => self == found,
        }
    }
}

fn same_entry(ours: &Entry, theirs: &Entry, numbers: &mut Numbers) -> bool {
    ours.name == theirs.name && ours.kind == theirs.kind && numbers.same(ours.ino, theirs.ino)
}
