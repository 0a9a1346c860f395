//! A script under way.

use super::driver::Library;
use super::history::History;
use super::script::Step;
use super::watched::Watched;
use hearth::Volume;
use hearth::backend::Backend;
use hearth_model::{Numbers, Op, Outcome, System};
use hearth_store::backend::Limits;
use hearth_store::backend::simulated::SimulatedStore;
use hearth_store::disk::simulated::SimulatedDisk;
use std::sync::Arc;

/// Blocks of each file of the log.
const LOG_BLOCKS: u64 = 48;

/// Limits that make idle work do something in a small volume.
pub fn limits() -> Limits {
    Limits {
        inline_bytes: 4096,
        live_percent: 70,
        small_pages: 64,
        small_segments: 3,
        ..Limits::default()
    }
}

/// A volume and the model beside it.
pub struct Run {
    pub disk: SimulatedDisk,
    pub store: SimulatedStore,
    pub library: Library,
    pub history: History,
    numbers: Numbers,
}

impl Run {
    pub fn new(seed: u64) -> Result<Run, String> {
        let disk = SimulatedDisk::new(seed);
        let made = SimulatedStore::make(&disk, LOG_BLOCKS);
        made.map_err(|error| format!("mkfs: {error}"))?;
        disk.keep_moments();
        let store = SimulatedStore::open(&disk, limits());
        let store = store.map_err(|error| format!("opening: {error}"))?;
        let history = History::new();
        let watched = Watched {
            store: Arc::clone(&store.backend),
            commits: Arc::clone(&history.commits),
        };
        Ok(Run {
            disk,
            store,
            library: Library::new(volume(watched)?),
            history,
            numbers: Numbers::default(),
        })
    }

    pub fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Call(p, op) => return self.call(*p, op),
            Step::Sync => {
                let synced = self.library.volume().sync();
                synced.map_err(|errno| format!("sync: {errno}"))?;
                self.history.note_all_synced();
                self.disk.set_mark(self.history.position());
            }
            Step::Forget => {
                self.library.volume().reclaim(u64::MAX);
            }
            Step::Tidy => while self.store.backend.tidy() {},
            Step::Checkpoint => {
                let done = self.store.kv.checkpoint();
                done.map_err(|error| format!("a checkpoint: {error}"))?;
            }
            Step::Witness => {
                let done = self.store.kv.write_witness();
                done.map_err(|error| format!("the witness: {error}"))?;
            }
        }
        self.history.note_commits();
        Ok(())
    }

    fn call(&mut self, p: usize, op: &Op) -> Result<(), String> {
        if self.history.model.clone().apply(p, op) == Outcome::Unspecified {
            return Ok(());
        }
        let expected = self.history.apply(p, op);
        let found = self.library.apply(p, op);
        if !expected.agrees(&found, &mut self.numbers) {
            return Err(format!("{op:?}: expected {expected:?}, found {found:?}"));
        }
        if self.history.note_call(p, op, &found) {
            self.disk.set_mark(self.history.position());
        }
        Ok(())
    }
}

/// A volume on a backend, without threads.
pub fn volume(backend: impl Backend) -> Result<Volume, String> {
    let builder = Volume::builder().workers(0).backend(backend);
    builder.build().map_err(|error| error.to_string())
}
