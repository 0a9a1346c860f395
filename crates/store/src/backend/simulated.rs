//! A whole store on a simulated disk, segments too: for tests of what a volume loses in a crash.
//! Nothing happens beside its caller, so each run of a script takes the same steps.

use super::{Limits, StoreBackend};
use crate::codec::Compression;
use crate::disk::simulated::SimulatedDisk;
use crate::engine::memory::MemoryEngines;
use crate::error::Result;
use crate::fsck::{self, Report, Segmented};
use crate::segment::{Segments, Settings};
use crate::troubles::Troubles;
use crate::volume::{Info, Kv, MkfsOptions, OpenMode, OpenOptions, Parts};
use hearth_sync::primitive::{Arc, Mutex};

/// Bytes of unpacked blocks that are kept for reading.
const KEPT: usize = 64 << 10;
/// Bytes of a block of the log.
const BLOCK: u64 = 4096;

/// A store that is open.
pub struct SimulatedStore {
    /// What a volume is built on.
    pub backend: Arc<StoreBackend>,
    /// The part below it, whose checkpoints and witness a test asks for.
    pub kv: Arc<Kv>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl SimulatedStore {
    /// Makes a store with four log files of `blocks` blocks of 4 KiB.
    ///
    /// # Errors
    /// What the disk says.
    pub fn make(disk: &SimulatedDisk, blocks: u64) -> Result<()> {
        let options = MkfsOptions {
            log_len: blocks * BLOCK,
            ..MkfsOptions::default()
        };
        Kv::mkfs_parts(&parts(disk), &options)
    }

    /// Opens a store for writing.
    ///
    /// # Errors
    /// What the disk says, and what is damaged.
    pub fn open(disk: &SimulatedDisk, limits: Limits) -> Result<SimulatedStore> {
        let mode = OpenMode::Write {
            who: "a test".to_owned(),
        };
        SimulatedStore::open_as(disk, mode, limits)
    }

    /// Opens a store to be read, as a dump does beside its writer.
    ///
    /// # Errors
    /// What the disk says.
    pub fn look(disk: &SimulatedDisk) -> Result<SimulatedStore> {
        SimulatedStore::open_as(disk, OpenMode::ReadOnly, Limits::default())
    }

    fn open_as(disk: &SimulatedDisk, mode: OpenMode, limits: Limits) -> Result<SimulatedStore> {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let to = Arc::clone(&lines);
        let troubles = Arc::new(Troubles::new(move |line| to.lock().push(line.to_owned())));
        let kv = Arc::new(opened(disk, mode.clone(), Arc::clone(&troubles))?);
        let settings = settings(&kv.info());
        let backend = StoreBackend::assembled(Arc::clone(&kv) as _, &mode, settings, |settings| {
            Segments::open_on(Arc::new(disk.clone()), settings)
        })?;
        let backend = Arc::new(backend.with_limits(limits).with_troubles(troubles));
        Ok(SimulatedStore { backend, kv, lines })
    }

    /// The lines about errors that the store wrote.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// What `fsck` finds, every block read, and the newest epoch. Changes nothing.
    ///
    /// # Errors
    /// What the disk says.
    pub fn check(disk: &SimulatedDisk) -> Result<Report> {
        let kv = opened(disk, OpenMode::ReadOnly, Arc::default())?;
        let segments = Segments::open_on(Arc::new(disk.clone()), settings(&kv.info()))?;
        let options = fsck::Options { data: true };
        let mut report = fsck::check(&kv, &Segmented::of(segments), options, &mut |_| {})?;
        if let Some(damage) = kv.damage() {
            report.add_damage(damage);
        }
        Ok(report)
    }
}

fn opened(disk: &SimulatedDisk, mode: OpenMode, troubles: Arc<Troubles>) -> Result<Kv> {
    let options = OpenOptions {
        background: false,
        troubles,
        ..OpenOptions::new(mode)
    };
    Kv::open_parts(parts(disk), options)
}

fn parts(disk: &SimulatedDisk) -> Parts {
    Parts {
        disk: Arc::new(disk.clone()),
        engines: Arc::new(MemoryEngines(disk.clone())),
    }
}

fn settings(info: &Info) -> Settings {
    Settings {
        volume: info.id,
        compression: Compression::Lz4,
        cipher: None,
        next: 1,
        kept: KEPT,
    }
}
