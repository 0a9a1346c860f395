//! What was committed and is not in the engine's tables yet, in memory.

use super::FrameDigest;
use crate::engine::{Change, View};
use crate::error::Result;
use crate::kv::{KvOp, Table};
use hearth_sync::primitive::Arc;
use std::collections::BTreeMap;
use std::ops::Bound;

type SharedKey = Arc<[u8]>;
type Value = Option<Arc<[u8]>>;
type Map = BTreeMap<SharedKey, Value>;
/// Changes in the order of their keys.
pub(crate) type Changes = Vec<(SharedKey, Value)>;

/// The key, in each table, of the epoch that the table is of: hidden from scans.
pub(crate) const STAMP: &[u8] = &[0];

/// Changes of all tables: the last one of each key.
#[derive(Default)]
pub(crate) struct Overlay {
    maps: [Map; 2],
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

    fn range(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> impl Iterator<Item = (&SharedKey, &Value)> {
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);
        self.maps[table as usize].range::<[u8], _>((Bound::Included(from), end))
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

    /// All changes of a range. The keys and values are shared, not copied.
    pub(crate) fn range(&self, table: Table, from: &[u8], to: Option<&[u8]>) -> Changes {
        let shared = |(key, value): (&SharedKey, &Value)| (key.clone(), value.clone());
        let mut found: Map = match &self.frozen {
            Some((frozen, _)) => frozen.range(table, from, to).map(shared).collect(),
            None => Map::new(),
        };
        found.extend(self.active.range(table, from, to).map(shared));
        found.into_iter().collect()
    }
}

/// Scans `view` with `changes`, which are of the same range, laid over it.
pub(crate) fn scan(
    changes: Changes,
    view: &dyn View,
    table: Table,
    (from, to): (&[u8], Option<&[u8]>),
    visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<()> {
    let mut changes = changes.into_iter().peekable();
    let mut goes_on = true;
    view.scan(table, from, to, &mut |key, value| {
        while let Some((new, value)) = changes.next_if(|(new, _)| &new[..] < key) {
            goes_on = value.is_none_or(|value| visit(&new, &value));
            if !goes_on {
                return false;
            }
        }
        goes_on = match changes.next_if(|(new, _)| &new[..] == key) {
            Some((_, value)) => value.is_none_or(|value| visit(key, &value)),
            None => key == STAMP || visit(key, value),
        };
        goes_on
    })?;
    for (key, value) in changes {
        goes_on = goes_on && value.is_none_or(|value| visit(&key, &value));
    }
    Ok(())
}
