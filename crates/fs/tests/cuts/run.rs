//! A script under way.

use super::driver::Library;
use super::history::History;
use super::script::Step;
use super::watched::Watched;
use hearth::backend::Backend;
use hearth::{Errno, Volume};
use hearth_model::{Numbers, Op, Outcome, System};
use hearth_store::backend::Limits;
use hearth_store::backend::simulated::SimulatedStore;
use hearth_store::disk::simulated::SimulatedDisk;
use std::sync::Arc;

/// Blocks of each file of the log, by seed: with few, epochs are too large for it.
const LOG_BLOCKS: [u64; 4] = [4, 8, 16, 48];

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
    /// Number of the last sync that returned.
    pub promised: u64,
    numbers: Numbers,
}

impl Run {
    pub fn new(seed: u64) -> Result<Run, String> {
        let disk = SimulatedDisk::new(seed);
        let made = SimulatedStore::make(&disk, LOG_BLOCKS[seed as usize % 4]);
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
            promised: 0,
            numbers: Numbers::default(),
        })
    }

    pub fn step(&mut self, step: &Step) -> Result<(), Failed> {
        let done = self.make(step);
        // What a sync did not promise may be durable all the same.
        self.history.note_commits();
        done
    }

    fn make(&mut self, step: &Step) -> Result<(), Failed> {
        match step {
            Step::Call(p, op) => return self.call(*p, op),
            Step::Sync => {
                let synced = self.library.volume().sync();
                synced.map_err(|errno| Failed::Refused("sync", errno))?;
                self.history.note_all_synced();
                self.promise();
            }
            Step::Forget => {
                self.library.volume().reclaim(u64::MAX);
            }
            Step::Tidy => while self.store.backend.tidy() {},
            Step::Checkpoint => {
                let done = self.store.kv.checkpoint();
                done.map_err(|error| Failed::Refused("a checkpoint", error.errno()))?;
            }
            Step::Witness => {
                let done = self.store.kv.write_witness();
                done.map_err(|error| Failed::Refused("the witness", error.errno()))?;
            }
        }
        Ok(())
    }

    fn call(&mut self, p: usize, op: &Op) -> Result<(), Failed> {
        let before = self.history.model.clone();
        if before.clone().apply(p, op) == Outcome::Unspecified {
            return Ok(());
        }
        let expected = self.history.apply(p, op);
        let found = self.library.apply(p, op);
        if expected.agrees(&found, &mut self.numbers) {
            if self.history.note_call(p, op, &found) {
                self.promise();
            }
            return Ok(());
        }
        self.history.model = before;
        match found {
            Outcome::Error(errno) if REFUSALS.contains(&errno) => {
                Err(Failed::Refused("a call", Errno(errno)))
            }
            found => Err(Failed::Otherwise(format!(
                "{op:?}: expected {expected:?}, found {found:?}"
            ))),
        }
    }

    /// A sync has returned: everything before it is promised.
    fn promise(&mut self) {
        self.promised = self.history.promised();
        self.disk.set_mark(self.promised);
    }
}

/// What calls return that a fault of the disk has met.
const REFUSALS: [i32; 3] = [libc::EIO, libc::ENOSPC, libc::EROFS];

/// How a step failed.
#[derive(Debug)]
pub enum Failed {
    /// It returned an error of the disk, and the model has not done it.
    Refused(&'static str, Errno),
    /// It did something else than the model.
    Otherwise(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Refused(what, errno) => write!(f, "{what}: {errno}"),
            Failed::Otherwise(what) => f.write_str(what),
        }
    }
}

/// A volume on a backend, without threads.
pub fn volume(backend: impl Backend) -> Result<Volume, String> {
    let builder = Volume::builder().workers(0).backend(backend);
    builder.build().map_err(|error| error.to_string())
}
