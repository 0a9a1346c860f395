//! The entries of one ACL in memory.

use super::{AclEntry, Tag};
use crate::cache_padded::CachePadded;

/// Entries in a cache line.
const LINE: usize = 64 / size_of::<AclEntry>();
/// Fills slots without an entry.
const NONE: AclEntry = AclEntry {
    tag: Tag::Other,
    perm: 0,
};

/// Entries in their order. They share no cache line with other blocks of memory: every walk through
/// a directory with an ACL reads them, and their neighbours may be written all the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entries {
    lines: Box<[CachePadded<[AclEntry; LINE]>]>,
    len: usize,
}

impl Entries {
    /// Bytes of memory that they take.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.lines)
    }

    pub fn iter(&self) -> impl Iterator<Item = AclEntry> {
        let all = self.lines.iter().flat_map(|line| line.0);
        all.take(self.len)
    }
}

impl From<&[AclEntry]> for Entries {
    fn from(entries: &[AclEntry]) -> Entries {
        let line = |some: &[AclEntry]| {
            let mut all = [NONE; LINE];
            all[..some.len()].copy_from_slice(some);
            CachePadded(all)
        };
        Entries {
            lines: entries.chunks(LINE).map(line).collect(),
            len: entries.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acl_entries_come_back_in_order_and_lie_on_cache_lines_of_their_own() {
        for len in [0, 1, LINE - 1, LINE, LINE + 1, 3 * LINE, 1_000] {
            let entry = |n| AclEntry {
                tag: Tag::User(n as u32),
                perm: n as u8 & 7,
            };
            let said: Vec<AclEntry> = (0..len).map(entry).collect();
            let entries = Entries::from(&said[..]);
            assert!(entries.iter().eq(said.iter().copied()), "{len}");
            assert_eq!(entries.memory(), len.div_ceil(LINE) * 64);
            for line in &entries.lines {
                assert_eq!(size_of_val(line), 64);
                assert_eq!(std::ptr::from_ref(line) as usize % 64, 0);
            }
        }
    }
}
