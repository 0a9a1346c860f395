//! The ordered map in tables behind the commit log.
//!
//! Only what [`Engine::write_table`] returned from counts: the engine keeps nothing in memory and
//! in no journal of its own. `fjall_tables` is the engine of volumes; [`memory`] is one for tests
//! that loses what a crash may lose.

mod archive;
mod blame;
mod fjall_errors;
pub(crate) mod fjall_tables;
mod layout;
pub mod memory;
mod merger;
mod mirror;
mod rests;
#[cfg(test)]
mod tests;

use crate::error::Result;
use crate::kv::Table;

/// The folder of the engine in the directory of a volume.
const FOLDER: &str = "engine";

/// Makes and opens the engine of one volume.
pub trait Engines: Send + Sync {
    /// Makes an empty engine, durably.
    fn create(&self) -> Result<()>;

    /// Opens the engine; at most one is open at a time.
    fn open(&self) -> Result<Box<dyn Engine>>;

    /// Opens the engine without changing a byte of it.
    fn open_read_only(&self) -> Result<Box<dyn Engine>>;
}

/// What a compaction has done.
#[derive(Clone, Copy, Debug)]
pub struct Compacted {
    /// Bytes of the tables before it.
    pub before: u64,
    /// And behind it.
    pub after: u64,
}

/// One changed key: its new value, or `None` where it is gone.
pub type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// An open engine.
pub trait Engine: Send + Sync {
    /// The value of `key`.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// All tables as they are now.
    fn view(&self) -> Result<Box<dyn View + '_>>;

    /// Puts changes, in order of their keys, into durable tables: all of them or none.
    fn write_table<'a>(
        &self,
        table: Table,
        changes: &mut dyn Iterator<Item = Change<'a>>,
    ) -> Result<()>;

    /// Gives back the room of keys that are gone, where that may be much of what so many free bytes
    /// are enough to write anew. `None`: there was nothing to do.
    ///
    /// # Errors
    /// [`crate::Error::Io`] where a write failed, [`crate::Error::Corrupt`] where a table cannot be
    /// read.
    fn compact(&self, free: u64) -> Result<Option<Compacted>>;

    /// Whether it must be dropped and opened again before the next change.
    fn is_broken(&self) -> bool;

    /// As [`crate::Read::damaged_tables`].
    fn damaged_tables(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Why a merge of tables failed that the engine makes on its own, if one has: it is broken
    /// then. The old tables are whole. [`crate::Error::Busy`] while that is found out.
    fn merge_error(&self) -> Option<crate::Error> {
        None
    }

    /// Waits for the merge that is under way, and lets no other begin, so that
    /// [`Engine::merge_error`] changes no more. For an engine that is about to be dropped; others
    /// may read meanwhile.
    fn end_merges(&self) {}
}

/// A moment of an engine.
pub trait View {
    /// As [`crate::Read::scan`].
    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()>;
}
