//! Commits: one at a time, those of the volume and those of idle work.

use super::StoreBackend;
use super::parts::KeyValues;
use crate::error::{Error, Result};
use crate::kv::{KvOp, Table};
use crate::merge::{self, merge};
use crate::schema::{Counters, corrupt, decode_unwritten, key};
use hearth_backend::{Errno, Record};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};

/// What the next commit goes on from.
#[derive(Debug)]
pub(super) struct State {
    counters: Counters,
    kv_epoch: u64,
    /// Pages that are allocated and not written, for who does not take the lock. Relaxed: a number
    /// of its own.
    unwritten: Arc<AtomicU64>,
    /// The error that ended committing.
    failed: Option<Error>,
    /// Records that found no room: they are committed with those of the next call.
    held: Vec<Record>,
    /// Segments that only a refused commit would name, with its epoch. A crash may still bring that
    /// commit back, until the next one takes its number.
    unnamed: Vec<(u64, u64)>,
    /// See [`StoreBackend::strays`].
    pub(super) strays: u64,
    /// Counts commits that made pages of segments dead.
    pub(super) deaths: u64,
    /// Inline bytes that came since idle work has looked at them.
    pub(super) inline: u64,
}

impl State {
    pub(super) fn new(counters: Counters, kv_epoch: u64, unwritten: Arc<AtomicU64>) -> State {
        State {
            counters,
            kv_epoch,
            unwritten,
            failed: None,
            held: Vec::new(),
            unnamed: Vec::new(),
            strays: 0,
            // What was before is looked at once.
            deaths: 1,
            inline: u64::MAX,
        }
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether records wait for room.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn kv_epoch(&self) -> u64 {
        self.kv_epoch
    }

    /// Fails once an error other than a lack of room has come: what is durable is not known then.
    pub(super) fn check(&self) -> Result<()> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Segments that the commit just refused would have named go when the next one is made.
    pub(super) fn add_unnamed(&mut self, segments: impl Iterator<Item = u64>) {
        let epoch = self.kv_epoch + 1;
        self.unnamed
            .extend(segments.map(|segment| (segment, epoch)));
    }

    /// Those of them that no crash brings back.
    pub(super) fn take_unnamed(&mut self) -> Vec<u64> {
        let kv_epoch = self.kv_epoch;
        let free = self.unnamed.extract_if(.., |(_, epoch)| *epoch <= kv_epoch);
        free.map(|(segment, _)| segment).collect()
    }

    /// Commits `ops` and `counters`.
    pub(super) fn apply(
        &mut self,
        kv: &dyn KeyValues,
        counters: Counters,
        mut ops: Vec<KvOp>,
    ) -> Result<()> {
        self.check()?;
        ops.push(merge::meta(key::COUNTERS.into(), Some(counters.encode())));
        match kv.commit(self.kv_epoch + 1, &ops) {
            Ok(()) => {
                self.kv_epoch += 1;
                self.counters = counters;
                self.note_unwritten(&ops);
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Takes the sum of what was committed.
    fn note_unwritten(&self, ops: &[KvOp]) {
        let sums = ops.iter().filter(|op| *op.key == *key::UNWRITTEN);
        for op in sums {
            let pages = op.value.as_deref().map_or(Ok(0), decode_unwritten);
            self.unwritten.store(pages.unwrap_or(0), Relaxed);
        }
    }

    /// Commits end with an error that is no lack of room.
    fn fail(&mut self, error: Error) -> Error {
        if error.errno() != Errno::ENOSPC {
            self.failed = Some(error.clone());
        }
        error
    }
}

impl StoreBackend {
    /// See `Backend::commit`.
    pub(super) fn commit_records(&self, epoch: u64, records: Vec<Record>) -> Result<()> {
        let mut state = self.state.lock();
        state.check()?;
        // What is ordered by version is so over epochs too.
        let mut all = std::mem::take(&mut state.held);
        all.extend(records);
        let result = self.apply_records(&mut state, epoch, &all);
        if let Err(error) = &result
            && error.errno() == Errno::ENOSPC
        {
            state.held = all;
        }
        result
    }

    fn apply_records(&self, state: &mut State, epoch: u64, records: &[Record]) -> Result<()> {
        let mut counters = state.counters;
        let merged = match merge(&*self.kv, &mut counters, records) {
            Ok(merged) => merged,
            Err(error) => return Err(state.fail(error)),
        };
        for segment in merged.named.keys() {
            let is_known = !self.pending.is_settled(*segment)
                || self.kv.get(Table::Meta, &key::segment(*segment))?.is_some();
            if !is_known {
                let what = "a record names a segment that was given up";
                return Err(state.fail(corrupt(&key::segment(*segment), what)));
            }
        }
        if merged.ops.is_empty() && counters == state.counters {
            // A commit of nothing writes nothing: what is durable is the state of this epoch.
            state.counters.epoch = epoch;
        } else {
            counters.epoch = epoch;
            let inline = merged.ops.iter().map(inline_bytes).sum();
            state.apply(&*self.kv, counters, merged.ops)?;
            self.blocks.set_epoch(state.kv_epoch);
            state.inline = state.inline.saturating_add(inline);
            state.deaths += u64::from(merged.is_deadly);
        }
        state.strays += merged.strays;
        for (segment, pages) in merged.named {
            self.pending.take(segment, pages);
        }
        self.pending.note_commit();
        Ok(())
    }
}

/// The bytes of inline data that a change brings.
fn inline_bytes(op: &KvOp) -> u64 {
    match &op.value {
        Some(value) if op.table == Table::Extents && op.key.starts_with(key::INLINES) => {
            value.len() as u64
        }
        _ => 0,
    }
}
