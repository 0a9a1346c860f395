//! A volume whose engine fails as it is told.

use super::harness::*;
use crate::disk::simulated::SimulatedDisk;
use crate::engine::memory::MemoryEngines;
use crate::engine::{Change, Compacted, Engine, Engines, View};
use crate::volume::{Kv, OpenOptions, Parts};
use crate::{Error, Result, Table};
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, Mutex, thread};
use std::time::Duration;

/// Engines whose merges fail, and that do not open again, as they are told.
#[derive(Clone)]
pub(super) struct FailingEngines {
    engines: Arc<MemoryEngines>,
    pub(super) merge: Arc<Mutex<Option<Error>>>,
    pub(super) open: Arc<Mutex<Option<Error>>>,
    /// The error of a merge that the engine makes on its own, until it is opened again.
    pub(super) own_merge: Arc<Mutex<Option<Error>>>,
    /// Becomes that error while a table is written.
    pub(super) beside_a_table: Arc<Mutex<Option<Error>>>,
    /// Becomes that error when merges are ended.
    pub(super) at_the_end: Arc<Mutex<Option<Error>>>,
}

struct FailingEngine {
    engine: Box<dyn Engine>,
    merge: Arc<Mutex<Option<Error>>>,
    own_merge: Arc<Mutex<Option<Error>>>,
    beside_a_table: Arc<Mutex<Option<Error>>>,
    at_the_end: Arc<Mutex<Option<Error>>>,
    has_failed: AtomicBool,
}

impl Engines for FailingEngines {
    fn create(&self) -> Result<()> {
        self.engines.create()
    }

    fn open(&self) -> Result<Box<dyn Engine>> {
        if let Some(error) = self.open.lock().clone() {
            return Err(error);
        }
        *self.own_merge.lock() = None;
        Ok(Box::new(FailingEngine {
            engine: self.engines.open()?,
            merge: Arc::clone(&self.merge),
            own_merge: Arc::clone(&self.own_merge),
            beside_a_table: Arc::clone(&self.beside_a_table),
            at_the_end: Arc::clone(&self.at_the_end),
            has_failed: AtomicBool::new(false),
        }))
    }

    fn open_read_only(&self) -> Result<Box<dyn Engine>> {
        self.open()
    }
}

impl Engine for FailingEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        // As a disk takes a while: nobody gets the engine between one read and the next.
        thread::sleep(Duration::from_millis(2));
        self.engine.get(table, key)
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        self.engine.view()
    }

    fn write_table<'a>(
        &self,
        table: Table,
        changes: &mut dyn Iterator<Item = Change<'a>>,
    ) -> Result<()> {
        let is_broken = self.has_failed.load(Relaxed) || self.engine.is_broken();
        assert!(!is_broken, "a table is written to a broken engine");
        if let Some(error) = self.beside_a_table.lock().take() {
            *self.own_merge.lock() = Some(error);
        }
        self.engine.write_table(table, changes)
    }

    fn compact(&self, free: u64) -> Result<Option<Compacted>> {
        match self.merge.lock().clone() {
            Some(error) => {
                self.has_failed.store(true, Relaxed);
                Err(error)
            }
            None => self.engine.compact(free),
        }
    }

    fn is_broken(&self) -> bool {
        let has_failed = self.has_failed.load(Relaxed) || self.own_merge.lock().is_some();
        has_failed || self.engine.is_broken()
    }

    fn merge_error(&self) -> Option<Error> {
        self.own_merge.lock().clone()
    }

    fn end_merges(&self) {
        if let Some(error) = self.at_the_end.lock().take() {
            *self.own_merge.lock() = Some(error);
        }
    }
}

/// A volume with something in its tables and something in its log.
pub(super) fn volume() -> (SimulatedDisk, FailingEngines, Kv) {
    let disk = made(1, 16);
    let engines = FailingEngines {
        engines: Arc::new(MemoryEngines(disk.clone())),
        merge: Arc::default(),
        open: Arc::default(),
        own_merge: Arc::default(),
        beside_a_table: Arc::default(),
        at_the_end: Arc::default(),
    };
    let parts = Parts {
        disk: Arc::new(disk.clone()),
        engines: Arc::new(engines.clone()),
    };
    let options = OpenOptions {
        background: false,
        ..OpenOptions::new(writer())
    };
    let kv = Kv::open_parts(parts, options).unwrap();
    kv.commit(1, &[put("a", "1"), put("b", "1")]).unwrap();
    kv.checkpoint().unwrap();
    kv.commit(2, &[put("a", "2")]).unwrap();
    (disk, engines, kv)
}
