//! What the parts of an open volume share, and whether it still takes reads and changes.

use super::Parts;
use super::background::Background;
use super::ballast::Ballast;
use super::gate::Gate;
use super::log::LogWriter;
use super::overlay::{Layers, Point};
use super::superblock::Superblock;
use super::witness::Witness;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::troubles::Troubles;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Arc, Mutex, RwLock};

pub(super) struct Shared {
    /// Immutable.
    pub parts: Parts,
    /// `None` where there was no room to open it again, and after the end.
    pub engine: RwLock<Option<Box<dyn Engine>>>,
    /// Keeps reads from the engine that is to be opened again.
    pub gate: Gate,
    pub layers: RwLock<Layers>,
    /// Bytes of a layer at which a checkpoint is asked for. Immutable.
    pub layer_bytes: u64,
    /// `None` in a read-only volume.
    pub log: Mutex<Option<LogWriter>>,
    pub superblock: Mutex<Superblock>,
    /// `None` in a read-only volume.
    pub witness: Mutex<Option<Witness>>,
    /// Held by the one checkpoint that is under way.
    pub checkpointing: Mutex<()>,
    /// `None` in a read-only volume. Immutable.
    pub ballast: Option<Ballast>,
    pub background: Background,
    /// Immutable.
    pub troubles: Arc<Troubles>,
    /// Why nothing is written any more.
    pub latched: Mutex<Option<String>>,
    /// Relaxed: a call beside the end may go either way.
    pub closed: AtomicBool,
    /// What is wrong with the volume that was opened in spite of it. Immutable.
    pub damage: Option<Error>,
    /// The end of the log when it was opened. Immutable.
    pub begun_at: Point,
    /// Keeps a writer beside from removing segments that this one reads, for as long as the volume
    /// is open. `None` for others than who only looks.
    pub sharing: Mutex<Option<Box<dyn Send + Sync>>>,
    /// Held for as long as the volume is open.
    pub lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl Shared {
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// The error of a read that finds no engine.
    pub(super) fn no_engine(&self) -> Error {
        if self.is_closed() {
            return Error::Closed;
        }
        // Any other error of opening it has made the volume read-only.
        match self.latched.lock().is_none() {
            true => Error::NoSpace {
                what: "open the engine again",
            },
            false => Error::corrupt("engine", 0, "the engine could not be opened again"),
        }
    }

    /// Refuses changes of a volume that takes none.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        if let Some(why) = &*self.latched.lock() {
            return Err(Error::ReadOnly { why: why.clone() });
        }
        Ok(())
    }

    /// The first error of the device that is no lack of room makes the volume read-only.
    pub(super) fn latch_unless_full(&self, error: &Error) {
        if let Error::Io { .. } | Error::Corrupt { .. } | Error::Engine { .. } = error {
            let why = format!("{error}; unmount, mend the disk, mount again");
            let mut latched = self.latched.lock();
            if latched.is_none() {
                *latched = Some(why.clone());
                drop(latched);
                let place = self.parts.disk.place().display();
                self.troubles
                    .say(format!("{place} is read-only from now on: {why}"));
            }
        }
    }
}
