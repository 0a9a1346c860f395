//! Commits: one at a time, those of the volume and those of idle work.

use super::StoreBackend;
use super::parts::Kv;
use crate::error::{Error, Result};
use crate::kv::KvOp;
use crate::merge::{self, merge};
use crate::schema::{Counters, key};
use hearth_backend::{Errno, Record};

/// What the next commit goes on from.
#[derive(Debug)]
pub(super) struct State {
    counters: Counters,
    kv_epoch: u64,
    /// The error that ended committing.
    failed: Option<Error>,
    /// See [`StoreBackend::strays`].
    pub(super) strays: u64,
    /// Counts commits that may have made pages of segments dead.
    pub(super) changes: u64,
}

impl State {
    pub(super) fn new(counters: Counters, kv_epoch: u64) -> State {
        State {
            counters,
            kv_epoch,
            failed: None,
            strays: 0,
            changes: 0,
        }
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
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

    /// Commits `ops` and `counters`.
    pub(super) fn apply(
        &mut self,
        kv: &dyn Kv,
        counters: Counters,
        mut ops: Vec<KvOp>,
    ) -> Result<()> {
        self.check()?;
        ops.push(merge::meta(key::COUNTERS.into(), Some(counters.encode())));
        match kv.commit(self.kv_epoch + 1, &ops) {
            Ok(()) => {
                self.kv_epoch += 1;
                self.counters = counters;
                self.changes += 1;
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
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
        let mut counters = state.counters;
        let merged = match merge(&*self.kv, &mut counters, records) {
            Ok(merged) => merged,
            Err(error) => return Err(state.fail(error)),
        };
        state.strays += merged.strays;
        if merged.ops.is_empty() && counters == state.counters {
            // A commit of nothing writes nothing: what is durable is the state of this epoch.
            state.counters.epoch = epoch;
        } else {
            counters.epoch = epoch;
            let kv = &*self.kv;
            state.apply(kv, counters, merged.ops)?;
        }
        for (segment, pages) in merged.named {
            self.pending.take(segment, pages);
        }
        Ok(())
    }
}
