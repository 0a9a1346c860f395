//! Names.

use super::{Merger, latest};
use crate::error::Result;
use crate::kv::Read;
use crate::schema::{encode_target, key};
use hearth_backend::Target;

/// A record of a name.
pub(super) struct Name<'r> {
    pub(super) dir: u64,
    pub(super) name: &'r [u8],
    pub(super) generation: u32,
    pub(super) version: u32,
    pub(super) to: Option<Target>,
    pub(super) came: bool,
}

impl<R: Read + ?Sized> Merger<'_, R> {
    /// The last record of each name counts.
    ///
    /// Of directories that had one number one after the other at most one is left, and the others
    /// ended empty: a name that still means something is a name of that one.
    pub(super) fn names(&mut self, mut names: Vec<Name<'_>>) -> Result<()> {
        names.sort_unstable_by(|a, b| {
            (a.dir, a.name, a.generation).cmp(&(b.dir, b.name, b.generation))
        });
        for group in names.chunk_by(|a, b| a.dir == b.dir && a.name == b.name) {
            let came = group.iter().any(|name| name.came || name.to.is_some());
            let key = key::name(group[0].dir, group[0].name);
            let left = group
                .chunk_by(|a, b| a.generation == b.generation)
                .filter_map(|of_one| latest(of_one, |name| name.version)?.to)
                .next_back();
            match left {
                Some(target) => self.put(key, encode_target(&target)),
                // A name that came and went within the epoch leaves no trace.
                None if came && self.get(&key)?.is_none() => {}
                None => self.remove(key),
            }
        }
        Ok(())
    }
}
