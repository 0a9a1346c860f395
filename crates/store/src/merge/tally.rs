//! Sums that are kept beside what they sum up: usage of owners, live pages of segments, pages
//! that are allocated and not written.

use super::meta;
use crate::error::Result;
use crate::kv::{KvOp, Read, Table};
use crate::schema::{Owner, Segment, Used, encode_unwritten, key, unwritten_pages};
use hearth_backend::Attrs;
use std::collections::BTreeMap;

/// Differences of sums.
#[derive(Debug, Default)]
pub struct Tally {
    usage: BTreeMap<Owner, (i64, i64)>,
    segments: BTreeMap<u64, (i64, u64)>,
    unwritten: i64,
}

impl Tally {
    /// An inode with these attributes and pages came (`sign` 1) or went (-1).
    pub(super) fn charge(&mut self, attrs: &Attrs, pages: u64, sign: i64) {
        let owner = Owner {
            uid: attrs.uid,
            gid: attrs.gid,
            project: attrs.project,
        };
        let used = self.usage.entry(owner).or_default();
        used.0 += sign * (pages as i64 + i64::from(attrs.extra_blocks));
        used.1 += sign;
    }

    /// Extents came to name `pages` more pages (fewer if negative) of `segment`.
    pub fn live(&mut self, segment: u64, pages: i64) {
        self.segments.entry(segment).or_default().0 += pages;
    }

    /// `pages` pages of `segment` were named for the first time.
    pub fn named(&mut self, segment: u64, pages: u64) {
        self.segments.entry(segment).or_default().1 += pages;
    }

    /// `pages` more pages are allocated and not written (fewer if negative).
    pub fn unwritten(&mut self, pages: i64) {
        self.unwritten += pages;
    }

    /// Whether pages of a segment died.
    pub fn is_deadly(&self) -> bool {
        self.segments.values().any(|(live, _)| *live < 0)
    }

    /// Adds the pages of `other`.
    pub(super) fn add(&mut self, other: Tally) {
        for (segment, (live, named)) in other.segments {
            let sum = self.segments.entry(segment).or_default();
            sum.0 += live;
            sum.1 += named;
        }
        self.unwritten += other.unwritten;
    }

    /// Appends the new sums to `ops`. Returns how many would be below zero; they are 0.
    pub fn finish(self, view: &(impl Read + ?Sized), ops: &mut Vec<KvOp>) -> Result<u64> {
        let mut strays = 0;
        let mut sum = |old: u64, change: i64| {
            old.checked_add_signed(change).unwrap_or_else(|| {
                strays += 1;
                0
            })
        };
        for (owner, (blocks, inodes)) in self.usage {
            if (blocks, inodes) == (0, 0) {
                continue;
            }
            let key = key::usage(&owner);
            let old = match view.get(Table::Meta, &key)? {
                Some(value) => Used::decode(&key, &value)?,
                None => Used::default(),
            };
            let used = Used {
                blocks: sum(old.blocks, blocks),
                inodes: sum(old.inodes, inodes),
            };
            let value = (used != Used::default()).then(|| used.encode());
            ops.push(meta(key, value));
        }
        for (segment, (live, named)) in self.segments {
            if (live, named) == (0, 0) {
                continue;
            }
            let key = key::segment(segment);
            let old = match view.get(Table::Meta, &key)? {
                Some(value) => Segment::decode(&key, &value)?,
                // A segment that was lost, and whose record repair has removed, gets no new one:
                // opening would look for its file. Pages of it that die are strays.
                None if named == 0 => {
                    sum(0, live);
                    continue;
                }
                None => Segment::default(),
            };
            let segment = Segment {
                live: sum(old.live, live),
                named: old.named.saturating_add(named),
            };
            ops.push(meta(key, Some(segment.encode())));
        }
        if self.unwritten != 0 {
            let pages = sum(unwritten_pages(view)?, self.unwritten);
            ops.push(meta(
                key::UNWRITTEN.into(),
                (pages > 0).then(|| encode_unwritten(pages)),
            ));
        }
        Ok(strays)
    }
}
