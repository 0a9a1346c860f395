//! From the records of one epoch to changes of keys.
//!
//! [`merge`] is a function of the records, in whatever order they come, and of the state before
//! them. What it returns is absolute and names each key once, so applying it twice, or over a state
//! that holds some of it, gives the same state.
//!
//! Every register takes the record with the highest version, by wrapping comparison; contents of a
//! file take all of theirs in that order. Which of several inodes that had one number stays, needs
//! no order: it is the one without a [`Record::Gone`].

mod contents;
mod drops;
mod extents;
mod names;
mod object;
mod tally;

#[cfg(test)]
mod tests;

pub use drops::{Dropped, drop_map};
pub use tally::Tally;

use crate::error::Result;
use crate::kv::{KvOp, Read, Table};
use crate::schema::{Counters, key};
use hearth_backend::Record;
use std::collections::HashMap;

/// Extents that the inodes which end in one epoch may delete at once. Those of larger files are
/// deleted in pieces, later: see [`drop_map`].
const DROPS: usize = 16 * 1024;

/// What the records of an epoch change.
#[derive(Debug, Default)]
pub struct Merged {
    /// Changes of keys, each key once. The counters are not among them.
    pub ops: Vec<KvOp>,
    /// Pages of each segment that the records named, also those that are dead already.
    pub named: HashMap<u64, u64>,
    /// Whether pages of segments died.
    pub is_deadly: bool,
    /// Records of inodes that are not there, and counts that would have gone below zero: 0 as long
    /// as the volume keeps its rules.
    pub strays: u64,
}

/// Changes of keys for `records`, which are all of one epoch, or of several that are committed as
/// one. `view` is the state before them; `counters` is changed along.
pub fn merge(
    view: &(impl Read + ?Sized),
    counters: &mut Counters,
    records: &[Record],
) -> Result<Merged> {
    let mut names = Vec::new();
    let mut settings = Vec::new();
    let mut objects = Vec::new();
    for record in records {
        match record {
            Record::Name {
                dir,
                generation,
                name,
                version,
                to,
                came,
            } => names.push(names::Name {
                dir: *dir,
                name,
                generation: *generation,
                version: *version,
                to: *to,
                came: *came,
            }),
            Record::Setting {
                key,
                version,
                value,
            } => settings.push((&**key, *version, value.as_deref())),
            record => objects.push(object::ObjectChange::of(record)),
        }
    }
    let mut merger = Merger {
        view,
        counters,
        ops: Vec::with_capacity(names.len() + 2 * objects.len()),
        tally: Tally::default(),
        drops_left: DROPS,
        named: HashMap::new(),
        strays: 0,
    };
    merger.objects(objects)?;
    merger.names(names)?;
    merger.settings(settings);
    let Merger {
        mut ops,
        tally,
        named,
        mut strays,
        ..
    } = merger;
    let is_deadly = tally.is_deadly();
    strays += tally.finish(view, &mut ops)?;
    Ok(Merged {
        ops,
        named,
        is_deadly,
        strays,
    })
}

/// Key, version and value of a setting.
type Setting<'r> = (&'r [u8], u32, Option<&'r [u8]>);

/// A merge under way.
struct Merger<'a, R: ?Sized> {
    view: &'a R,
    counters: &'a mut Counters,
    ops: Vec<KvOp>,
    tally: Tally,
    drops_left: usize,
    named: HashMap<u64, u64>,
    strays: u64,
}

impl<R: Read + ?Sized> Merger<'_, R> {
    fn put(&mut self, key: Box<[u8]>, value: Box<[u8]>) {
        self.ops.push(meta(key, Some(value)));
    }

    fn remove(&mut self, key: Box<[u8]>) {
        self.ops.push(meta(key, None));
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.view.get(Table::Meta, key)
    }

    fn settings(&mut self, mut settings: Vec<Setting<'_>>) {
        settings.sort_by(|a, b| a.0.cmp(b.0));
        for group in settings.chunk_by(|a, b| a.0 == b.0) {
            if let Some((name, _, value)) = latest(group, |setting| setting.1) {
                let value = value.map(Box::from);
                self.ops.push(meta(key::setting(name), value));
            }
        }
    }
}

/// A change of a key of the keyspace `meta`.
pub(crate) fn meta(key: Box<[u8]>, value: Option<Box<[u8]>>) -> KvOp {
    KvOp {
        table: Table::Meta,
        key,
        value,
    }
}

/// A change of a key of the keyspace `extents`.
pub(crate) fn extents(key: Box<[u8]>, value: Option<Box<[u8]>>) -> KvOp {
    KvOp {
        table: Table::Extents,
        key,
        value,
    }
}

/// Whether version `a` is later than `b`.
fn is_later(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// The item with the latest version.
fn latest<T>(items: &[T], version: impl Fn(&T) -> u32) -> Option<&T> {
    items
        .iter()
        .reduce(|best, item| match is_later(version(item), version(best)) {
            true => item,
            false => best,
        })
}
