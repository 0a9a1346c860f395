//! Comparing outcomes of two systems.

use std::collections::BTreeMap;

use libc::{STATX_ATIME, STATX_BLOCKS, STATX_BTIME, STATX_CTIME, STATX_GID, STATX_MODE};
use libc::{STATX_MTIME, STATX_NLINK, STATX_SIZE, STATX_UID};

use crate::outcome::{Attr, Entry, Outcome, Stamp, StatX};

/// Which inode of the other system is which inode of the model, and its birth time there, learnt as
/// they appear.
#[derive(Debug, Default)]
pub struct Numbers {
    theirs: BTreeMap<u64, u64>,
    ours: BTreeMap<u64, u64>,
    births: BTreeMap<u64, (i64, u32)>,
}

impl Numbers {
    /// Returns whether the two numbers can name one inode, and remembers that they do.
    pub fn same(&mut self, ours: u64, theirs: u64) -> bool {
        *self.theirs.entry(ours).or_insert(theirs) == theirs
            && *self.ours.entry(theirs).or_insert(ours) == ours
    }

    /// Returns whether the inode of the model can have been born then: during the test, and once
    /// only.
    fn same_birth(&mut self, ours: u64, birth: (i64, u32)) -> bool {
        Stamp::of(birth.0, birth.1) == Stamp::Now
            && birth.1 < 1_000_000_000
            && *self.births.entry(ours).or_insert(birth) == birth
    }
}

impl Outcome {
    /// Returns whether another system's outcome is what the model (`self`) expects.
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
            (Outcome::StatX(ours), Outcome::StatX(theirs)) => same_statx(ours, theirs, numbers),
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

/// The other system must report what the model reports; it may report more.
fn same_statx(ours: &StatX, theirs: &StatX, numbers: &mut Numbers) -> bool {
    let (a, b) = (&ours.attr, &theirs.attr);
    let fields = [
        (STATX_MODE, a.perm == b.perm),
        (STATX_NLINK, a.nlink == b.nlink),
        (STATX_UID, a.uid == b.uid),
        (STATX_GID, a.gid == b.gid),
        (STATX_ATIME, a.atime == b.atime),
        (STATX_MTIME, a.mtime == b.mtime),
        (STATX_CTIME, a.ctime == b.ctime),
        (STATX_SIZE, a.size == b.size),
        (STATX_BLOCKS, a.pages == b.pages),
    ];
    let told = |field| ours.mask & field != 0;
    numbers.same(a.ino, b.ino)
        && (a.kind, a.rdev, ours.blksize) == (b.kind, b.rdev, theirs.blksize)
        && theirs.mask & ours.mask == ours.mask
        && fields.iter().all(|(field, same)| *same || !told(*field))
        && (!told(STATX_BTIME) || numbers.same_birth(a.ino, theirs.birth))
        && (ours.attributes, ours.attributes_mask) == (theirs.attributes, theirs.attributes_mask)
}

fn same_entry(ours: &Entry, theirs: &Entry, numbers: &mut Numbers) -> bool {
    ours.name == theirs.name && ours.kind == theirs.kind && numbers.same(ours.ino, theirs.ino)
}
