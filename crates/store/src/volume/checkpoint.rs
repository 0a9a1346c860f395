//! Checkpoints: what was committed moves from memory into the engine's tables.

use super::fields::{array, u64_at};
use super::large;
use super::overlay::{Overlay, Point, STAMP};
use super::shared::Shared;
use super::witness::Testimony;
use super::{BLOCK, FrameDigest};
use crate::engine::{Change, Compacted, Engine};
use crate::error::{Error, Result};
use crate::kv::Table;
use hearth_sync::primitive::{Arc, thread};
use std::time::Duration;

/// How often the engine is tried for, and from which time on new reads wait meanwhile.
const MEND_TRIES: u32 = 1000;
const POLITE_TRIES: u32 = 500;
const MEND_PAUSE: Duration = Duration::from_millis(1);

pub(super) const TABLES: [Table; 2] = [Table::Meta, Table::Extents];

impl Shared {
    /// Puts everything that was committed before into durable tables and says so in the
    /// superblock.
    ///
    /// # Errors
    /// After [`Error::NoSpace`] nothing is lost: the next checkpoint begins where this one ended.
    pub(super) fn checkpoint(&self) -> Result<()> {
        self.check_writable()?;
        let _one = self.checkpointing.lock();
        // What is committed from here on is the next one's: commits without a pause would keep
        // this one for ever.
        let until = self.log.lock().as_ref().map_or(0, |log| log.last.epoch);
        // What an earlier one left comes first, then what was committed since.
        while let Some((overlay, point)) = self.freeze(until) {
            let written = self.write_tables_and_find_room(&overlay, &point);
            written.inspect_err(|error| self.engine_failed(error))?;
            let named = self.name_tables(&point);
            named.inspect_err(|error| self.latch_unless_full(error))?;
        }
        self.look_at_merges()
    }

    /// Latches where a merge of the engine's own has failed to write.
    fn look_at_merges(&self) -> Result<()> {
        let looked = self.engine.read().as_deref().map_or(Ok(()), check_merges);
        looked.inspect_err(|error| self.engine_failed(error))
    }

    /// See [`Engine::compact`]. An engine that is broken is left to the next checkpoint.
    ///
    /// # Errors
    /// A bad block that it met is that block's. A write that failed latches, although the old
    /// tables stay and nothing depends on the merge: it says that the disk is broken.
    pub(super) fn compact(&self, free: u64) -> Result<Option<Compacted>> {
        self.check_writable()?;
        let _one = self.checkpointing.lock();
        let compacted = match self.engine.read().as_deref() {
            Some(engine) if !engine.is_broken() => engine.compact(free),
            _ => return self.look_at_merges().map(|()| None),
        };
        if let Err(error @ Error::Io { .. }) = &compacted
            && !error.is_shortage()
        {
            self.latch_unless_full(error);
        } else if let Err(Error::NoSpace { .. }) = &compacted {
            // What it has left of tables goes when the engine is opened again. After other errors
            // that waits for a checkpoint: on a broken disk it may not open, and this one reads.
            if let Err(error) = self.mend_engine() {
                self.engine_failed(&error);
                self.background.ask_for_ballast();
            }
        }
        compacted
    }

    /// Waits for a checkpoint while the layers are full: memory has a bound. Without room for one
    /// the log is the bound, so that what is removed can still be committed. So it is while a scan
    /// keeps a broken engine.
    pub(super) fn bound_layers(&self) -> Result<()> {
        if !self.layers.read().are_full(self.layer_bytes) {
            return Ok(());
        }
        match self.checkpoint() {
            Err(error) if error.is_passing() => Ok(()),
            done => done,
        }
    }

    /// Makes the volume read-only after an error of the engine, unless it says nothing of the disk:
    /// without descriptors or memory no table is begun anew, and the next try begins one.
    fn engine_failed(&self, error: &Error) {
        match error.is_shortage() {
            true => self.background.ask_for_ballast(),
            false => self.latch_unless_full(error),
        }
    }

    /// Closes the active layer, unless an earlier one is still there. `None`: every epoch up to
    /// `until` is in tables.
    fn freeze(&self, until: u64) -> Option<(Arc<Overlay>, Point)> {
        let log = self.log.lock();
        let log = log.as_ref()?;
        let mut layers = self.layers.write();
        if layers.frozen.is_none() && log.kept < until {
            let overlay = Arc::new(std::mem::take(&mut layers.active));
            layers.frozen = Some((overlay, log.last));
        }
        layers.frozen.clone()
    }

    fn write_tables_and_find_room(&self, overlay: &Overlay, point: &Point) -> Result<()> {
        match self.write_tables(overlay, point) {
            Err(Error::NoSpace { .. }) => {
                self.release_ballast()?;
                self.write_tables(overlay, point)
            }
            written => written,
        }
    }

    /// Says in the superblock that everything up to `point` is in tables.
    fn name_tables(&self, point: &Point) -> Result<()> {
        let has_large = self.log.lock().as_ref().is_some_and(|log| log.has_large);
        let mut superblock = self.superblock.lock();
        let mut slot = superblock.slot.clone();
        slot.checkpoint = point.epoch;
        slot.digest = point.digest;
        slot.log_at = (point.log_at / BLOCK) as u32;
        superblock.write(slot.clone())?;
        if has_large {
            // The files of epochs go: neither slot may lead to them if the other one is damaged.
            superblock.write(slot)?;
        }
        drop(superblock);
        if let Some(log) = &mut *self.log.lock() {
            log.kept = point.epoch;
            log.has_large &= log.last.epoch > point.epoch;
        }
        self.layers.write().frozen = None;
        if has_large {
            let swept = large::sweep(&*self.parts.disk, &(point.epoch + 1..u64::MAX));
            if let Err(error) = swept {
                let what = "the file of a large epoch stays until the next opening";
                self.troubles.failed(what, &error);
            }
        }
        Ok(())
    }

    fn write_tables(&self, overlay: &Overlay, point: &Point) -> Result<()> {
        self.mend_engine()?;
        let engine = self.engine.read();
        let engine = engine.as_deref().ok_or_else(|| self.no_engine())?;
        let stamp = encode_stamp(point);
        for table in TABLES {
            let first: Change<'_> = (STAMP, Some(&stamp));
            let mut changes = std::iter::once(first).chain(overlay.changes(table));
            engine.write_table(table, &mut changes)?;
        }
        check_merges(engine)
    }

    /// Opens a broken engine anew. Nothing is lost with the handles: what is in no table is in the
    /// layers over it. After a write or a sync that failed it stays as it is, to be read: the disk
    /// is not to be trusted with another one.
    ///
    /// # Errors
    /// [`Error::Busy`] if a scan keeps it for long, or while it is not known why a merge has
    /// failed: nothing may be written to it then.
    fn mend_engine(&self) -> Result<()> {
        let engine = self.engine.read();
        if let Some(engine) = engine.as_deref() {
            check_merges(engine)?;
            if let Some(error) = engine.merge_error() {
                self.troubles.failed("tables were not merged", &error);
            }
        }
        drop(engine);
        let is_broken = |engine: &Option<Box<dyn Engine>>| {
            engine.as_ref().is_none_or(|engine| engine.is_broken())
        };
        if self.is_closed() || !is_broken(&self.engine.read()) {
            return Ok(());
        }
        // What it still merges is waited for while others read, and may fail as well.
        if let Some(engine) = self.engine.read().as_deref() {
            engine.end_merges();
            check_merges(engine)?;
        }
        let mut shut = None;
        for tried in 0..MEND_TRIES {
            if tried == POLITE_TRIES {
                // Steady readers never leave it to anyone: one has begun before another ends.
                shut = Some(self.gate.shut());
            }
            // Never waits in the queue of the lock: a visitor of a scan may read again.
            if let Some(mut engine) = self.engine.try_write() {
                *engine = None;
                *engine = Some(self.parts.engines.open()?);
                drop(shut);
                return Ok(());
            }
            thread::sleep(MEND_PAUSE);
        }
        Err(Error::Busy {
            what: "the engine from being opened again",
        })
    }

    /// Writes the newest acknowledged epoch into the witness, if it does not say so already.
    pub(super) fn write_witness(&self) -> Result<()> {
        let Some(last) = self.log.lock().as_ref().map(|log| log.last) else {
            return Ok(());
        };
        self.check_writable()?;
        let mut witness = self.witness.lock();
        let Some(witness) = witness.as_mut() else {
            return Ok(());
        };
        let incarnation = self.superblock.lock().slot.incarnation;
        if witness.last.epoch >= last.epoch && witness.last.incarnation == incarnation {
            return Ok(());
        }
        let written = witness.write(Testimony {
            incarnation,
            epoch: last.epoch,
            digest: last.digest,
            ..Testimony::default()
        });
        written.inspect_err(|error| self.latch_unless_full(error))
    }

    pub(super) fn release_ballast(&self) -> Result<()> {
        if let Some(ballast) = &self.ballast {
            ballast.release()?;
            self.background.ask_for_ballast();
        }
        Ok(())
    }

    /// Looks for room again: for an engine that found none, and then for the ballast.
    pub(super) fn regain_room(&self) {
        if self.is_closed() {
            return;
        }
        let one = self.checkpointing.lock();
        let mended = self.mend_engine();
        drop(one);
        if let Err(error) = mended {
            self.engine_failed(&error);
        }
        // A scan may have kept it from being opened.
        if self.engine.read().is_none() {
            self.background.ask_for_ballast();
        } else if self.check_writable().is_ok() {
            self.fill_ballast();
        }
    }

    /// Takes the ballast back, now or in a while.
    pub(super) fn fill_ballast(&self) {
        if let Some(ballast) = &self.ballast {
            self.background.ballast_was_looked_at(ballast.fill());
        }
    }
}

/// The error of a write or a sync that failed in a merge of the engine's own.
///
/// # Errors
/// [`Error::Busy`] while nobody knows whether it is one.
pub(super) fn check_merges(engine: &dyn Engine) -> Result<()> {
    match engine.merge_error() {
        Some(error @ Error::Io { .. }) if !error.is_shortage() => Err(error),
        Some(error @ Error::Busy { .. }) => Err(error),
        _ => Ok(()),
    }
}

fn encode_stamp(point: &Point) -> Vec<u8> {
    [&point.epoch.to_le_bytes()[..], &point.digest].concat()
}

/// The epoch and the digest of the last checkpoint that wrote `table`: zeros before the first.
/// Read as scans read, so that an engine whose scans miss tables is found out.
pub(super) fn stamp(engine: &dyn Engine, table: Table) -> Result<(u64, FrameDigest)> {
    let mut found = Vec::new();
    engine
        .view()?
        .scan(table, STAMP, Some(&[0, 0]), &mut |_, value| {
            found = value.to_vec();
            false
        })?;
    match found.len() {
        0 => Ok((0, [0; 32])),
        40 => Ok((u64_at(&found, 0), array(&found, 8))),
        _ => Err(Error::corrupt("engine", 0, "the stamp makes no sense")),
    }
}
