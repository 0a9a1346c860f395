//! What was committed and is not in the engine's tables yet, in memory.

use super::FrameDigest;
use super::sorted_map::{MapRange, SortedMap, Value};
use crate::engine::{Change, View};
use crate::error::Result;
use crate::kv::{KvOp, Table};
use hearth_sync::primitive::Arc;
use std::cmp::Ordering;
use std::iter::Peekable;

/// The key, in each table, of the epoch that the table is of: hidden from scans.
pub(crate) const STAMP: &[u8] = &[0];

/// Changes of all tables: the last one of each key.
#[derive(Default)]
pub(crate) struct Overlay {
    maps: [SortedMap; 2],
    bytes: u64,
}

/// What a change takes beside its key and its value: its share of a node, and what two allocations
/// with counts take.
const CHANGE: u64 = 96;

impl Overlay {
    pub(crate) fn apply(&mut self, ops: &[KvOp]) {
        for op in ops {
            let value: Value = op.value.as_deref().map(Arc::from);
            self.bytes += length(&value);
            let before = self.maps[op.table as usize].insert(Arc::from(&op.key[..]), value);
            match before {
                Some(before) => self.bytes -= length(&before),
                None => self.bytes += op.key.len() as u64 + CHANGE,
            }
        }
    }

    /// Drops all changes of a table.
    pub(crate) fn forget(&mut self, table: Table) {
        let map = std::mem::take(&mut self.maps[table as usize]);
        for (key, value) in map.iter() {
            self.bytes -= key.len() as u64 + CHANGE + length(value);
        }
    }

    /// About the bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn get(&self, table: Table, key: &[u8]) -> Option<&Value> {
        self.maps[table as usize].get(key)
    }

    pub(crate) fn changes(&self, table: Table) -> impl Iterator<Item = Change<'_>> {
        let map = self.maps[table as usize].iter();
        map.map(|(key, value)| (&key[..], value.as_deref()))
    }
}

fn length(value: &Value) -> u64 {
    value.as_ref().map_or(0, |value| value.len() as u64)
}

/// Where the log stood when a layer was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub epoch: u64,
    pub digest: FrameDigest,
    /// Byte of the whole log behind the last frame.
    pub log_at: u64,
}

/// The layers over the engine, newest first.
#[derive(Default)]
pub(crate) struct Layers {
    /// Takes commits.
    pub active: Overlay,
    /// Is on its way into the engine.
    pub frozen: Option<(Arc<Overlay>, Point)>,
}

impl Layers {
    /// Whether the layer that takes commits has so many bytes that it is to be closed.
    pub(crate) fn is_large(&self, most: u64) -> bool {
        self.active.bytes() >= most
    }

    /// Whether all layers have so many bytes that one has to go into the engine first.
    pub(crate) fn are_full(&self, most: u64) -> bool {
        self.bytes() >= 2 * most
    }

    /// About the bytes of memory that all layers take.
    pub(crate) fn bytes(&self) -> u64 {
        let frozen = self.frozen.as_ref().map_or(0, |(layer, _)| layer.bytes());
        self.active.bytes() + frozen
    }

    /// The value that a layer has for `key`; `None` if the engine is to be asked.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let frozen = || self.frozen.as_ref()?.0.get(table, key);
        let value = self.active.get(table, key).or_else(frozen)?;
        Some(value.as_deref().map(<[u8]>::to_vec))
    }

    /// All changes of a table at this moment. Nothing is copied.
    pub(crate) fn changes(&self, table: Table) -> Changes {
        let frozen = self.frozen.as_ref();
        Changes {
            active: self.active.maps[table as usize].clone(),
            frozen: frozen.map(|(frozen, _)| Arc::clone(frozen)),
            table,
        }
    }
}

/// The changes of a table at one moment.
pub(crate) struct Changes {
    active: SortedMap,
    frozen: Option<Arc<Overlay>>,
    table: Table,
}

impl Changes {
    /// Those of a range, in the order of their keys, each key once.
    fn range<'c>(&'c self, from: &[u8], to: Option<&'c [u8]>) -> MergedChanges<'c> {
        let frozen = (self.frozen.as_deref())
            .map(|frozen| frozen.maps[self.table as usize].range(from, to).peekable());
        MergedChanges {
            active: self.active.range(from, to).peekable(),
            frozen,
        }
    }
}

/// The entries of two layers, of which the newer one counts.
struct MergedChanges<'c> {
    active: Peekable<MapRange<'c>>,
    frozen: Option<Peekable<MapRange<'c>>>,
}

impl<'c> Iterator for MergedChanges<'c> {
    type Item = (&'c [u8], Option<&'c [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let frozen = self.frozen.as_mut();
        let older = frozen.and_then(|frozen| Some((frozen.peek()?.0, frozen)));
        let entry = match (self.active.peek(), older) {
            (None, Some((_, frozen))) => frozen.next(),
            (Some((key, _)), Some((older, frozen))) => match key.cmp(&older) {
                Ordering::Less => self.active.next(),
                Ordering::Equal => {
                    frozen.next();
                    self.active.next()
                }
                Ordering::Greater => frozen.next(),
            },
            (_, None) => self.active.next(),
        };
        entry.map(|(key, value)| (&key[..], value.as_deref()))
    }
}

/// Scans `view` with `changes` laid over it.
pub(crate) fn scan(
    changes: &Changes,
    view: &dyn View,
    table: Table,
    (from, to): (&[u8], Option<&[u8]>),
    visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<()> {
    let mut changes = changes.range(from, to).peekable();
    let mut goes_on = true;
    view.scan(table, from, to, &mut |key, value| {
        while let Some((new, value)) = changes.next_if(|(new, _)| *new < key) {
            goes_on = value.is_none_or(|value| visit(new, value));
            if !goes_on {
                return false;
            }
        }
        goes_on = match changes.next_if(|(new, _)| *new == key) {
            Some((_, value)) => value.is_none_or(|value| visit(key, value)),
            None => key == STAMP || visit(key, value),
        };
        goes_on
    })?;
    for (key, value) in changes {
        if !goes_on {
            break;
        }
        goes_on = value.is_none_or(|value| visit(key, value));
    }
    Ok(())
}
