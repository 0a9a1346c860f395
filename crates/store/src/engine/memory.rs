//! An engine in memory, kept by a simulated disk: for crash tests.
//!
//! A table that was written is durable at once, also where the epoch of the checkpoint is not: so
//! after a crash single tables are ahead of it. A write that fails breaks the engine until it is
//! opened again, as fjall does.

use super::{Change, Compacted, Engine, Engines, View};
use crate::disk::simulated::{Maps, SimulatedDisk};
use crate::error::{Error, Result};
use crate::kv::Table;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The engine on a simulated disk.
pub struct MemoryEngines(pub SimulatedDisk);

impl Engines for MemoryEngines {
    fn create(&self) -> Result<()> {
        self.0.set_engine(Maps::default())
    }

    fn open(&self) -> Result<Box<dyn Engine>> {
        self.open_read_only()
    }

    fn open_read_only(&self) -> Result<Box<dyn Engine>> {
        if self.0.engine().is_none() {
            return Err(Error::corrupt("engine", 0, "the engine is missing"));
        }
        Ok(Box::new(MemoryEngine {
            disk: self.0.clone(),
            is_broken: AtomicBool::new(false),
        }))
    }
}

struct MemoryEngine {
    disk: SimulatedDisk,
    /// Relaxed: written and read by checkpoints, one at a time.
    is_broken: AtomicBool,
}

impl MemoryEngine {
    fn maps(&self) -> Arc<Maps> {
        self.disk.engine().unwrap_or_default()
    }
}

impl Engine for MemoryEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.disk.read_engine()?;
        Ok(self.maps()[table as usize].get(key).cloned())
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        self.disk.read_engine()?;
        Ok(Box::new(MapsNow(self.maps())))
    }

    fn write_table<'a>(
        &self,
        table: Table,
        changes: &mut dyn Iterator<Item = Change<'a>>,
    ) -> Result<()> {
        if self.is_broken() {
            return Err(Error::corrupt("engine", 0, "the engine is poisoned"));
        }
        let mut maps = Maps::clone(&self.maps());
        let map: &mut BTreeMap<_, _> = &mut maps[table as usize];
        for (key, value) in changes {
            match value {
                Some(value) => map.insert(key.to_vec(), value.to_vec()),
                None => map.remove(key),
            };
        }
        self.disk.set_engine(maps).inspect_err(|_| {
            self.is_broken.store(true, Ordering::Relaxed);
        })
    }

    /// Keys that are gone take no room.
    fn compact(&self, _: u64) -> Result<Option<Compacted>> {
        Ok(None)
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}

struct MapsNow(Arc<Maps>);

impl View for MapsNow {
    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);
        let found = self.0[table as usize].range::<[u8], _>((Bound::Included(from), end));
        for (key, value) in found {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}
