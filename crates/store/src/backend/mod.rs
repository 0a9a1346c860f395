//! A store as the backend of a volume.
//!
//! Two parts are below it: keys and values ([`KeyValues`]) and blocks of data ([`Blocks`]). What a
//! volume records becomes changes of keys ([`crate::merge`]); idle work makes some of its own,
//! between the epochs of the volume. So the key-value part counts commits of its own, and the
//! volume's epoch is a value in it.
//!
//! Lock order:
//!
//! ```text
//! tidying (one thread does idle work)
//!   state (one commit at a time; held while it becomes durable)
//!     pending, flights (numbers alone; never held over a call)
//! ```
//!
//! Loading takes none of them. It may see a commit between two of its reads. For an inode that is
//! no harm: a volume loads one that it does not have, and only changes one that it has. Extents do
//! change beside a load; one scan sees them before or after a commit, and bytes that idle work has
//! moved meanwhile are looked up again.

mod collect;
mod commit;
mod complete;
mod inline;
mod load;
mod load_many;
pub mod memory;
mod moving;
mod on_disk;
mod parts;
mod pending;
mod sealed;
pub mod simulated;
mod tidy;

#[cfg(test)]
mod tests;

pub use on_disk::{MakeOptions, StoreOptions};
pub(crate) use on_disk::{block_of, segments_of};
pub use parts::{BlockOrigin, Blocks, FilePages, KeyValues, PagesInBlock};
pub use tidy::Limits;

use crate::error::{Error, Result};
use crate::kv::Table;
use crate::schema::{Counters, key, unwritten_pages};
use crate::troubles::Troubles;
use commit::State;
use hearth_backend::{
    Allocation, Backend, Errno, Extent, Inode, PageSource, Record, Restart, Target,
};
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, Mutex};
use memory::{MemoryBlocks, MemoryKv};
use pending::Pending;
use std::ops::Range;
use tidy::Tidying;

/// Pages take a part more on the disk: headers, and what the engine keeps of them.
const OVERHEAD: u64 = 32;

/// A store as the backend of a volume.
pub struct StoreBackend {
    kv: Arc<dyn KeyValues>,
    blocks: Arc<dyn Blocks>,
    /// What the next commit goes on from.
    state: Mutex<State>,
    /// Pages that are allocated and not written. Relaxed: a number of its own.
    unwritten: Arc<AtomicU64>,
    /// Pages of segments that no record names yet.
    pending: Pending,
    /// How far idle work got.
    tidying: Mutex<Tidying>,
    /// When idle work is worth it. Immutable.
    limits: Limits,
    /// Whether nothing may be changed. Immutable.
    is_read_only: bool,
    /// Where it is said what goes wrong. Immutable.
    troubles: Arc<Troubles>,
    /// The process that opened the store. A fork of it has a copy of everything but the threads,
    /// and shares the files: it changes nothing. Immutable.
    process: u32,
}

impl Drop for StoreBackend {
    fn drop(&mut self) {
        // The end waits for threads, which a fork has not.
        if self.check_own().is_err() {
            std::mem::forget((Arc::clone(&self.kv), Arc::clone(&self.blocks)));
        }
    }
}

impl StoreBackend {
    /// A store in memory, for tests.
    pub fn memory() -> Result<StoreBackend> {
        StoreBackend::new(Arc::new(MemoryKv::new()), Arc::new(MemoryBlocks::new()))
    }

    /// A store of these parts.
    pub fn new(kv: Arc<dyn KeyValues>, blocks: Arc<dyn Blocks>) -> Result<StoreBackend> {
        let counters = match kv.get(Table::Meta, key::COUNTERS)? {
            Some(value) => Counters::decode(&value)?,
            None => Counters::default(),
        };
        let troubles: Arc<Troubles> = Arc::default();
        // A sum that cannot be read keeps nobody from writing: `fsck` finds it.
        let unwritten = unwritten_pages(&*kv).unwrap_or_else(|error| {
            troubles.failed("what allocations were promised counts as free", &error);
            0
        });
        let unwritten = Arc::new(AtomicU64::new(unwritten));
        let kv_epoch = kv.epoch();
        blocks.set_epoch(kv_epoch);
        Ok(StoreBackend {
            tidying: Mutex::new(Tidying::new(blocks.first())),
            state: Mutex::new(State::new(counters, kv_epoch, Arc::clone(&unwritten))),
            unwritten,
            kv,
            blocks,
            pending: Pending::default(),
            limits: Limits::default(),
            is_read_only: false,
            troubles,
            process: std::process::id(),
        })
    }

    /// Sets the limits of idle work.
    pub fn with_limits(mut self, limits: Limits) -> StoreBackend {
        self.limits = limits;
        self
    }

    /// Sends lines about errors elsewhere than to standard error.
    pub fn with_troubles(mut self, troubles: Arc<Troubles>) -> StoreBackend {
        self.troubles = troubles;
        self
    }

    /// Refuses a fork of the process that opened the store. Asked before a lock is taken that a
    /// thread may have held at the fork.
    fn check_own(&self) -> Result<()> {
        match std::process::id() == self.process {
            true => Ok(()),
            false => Err(Error::Forked),
        }
    }

    /// Says what an errno cannot say, and returns that errno. Lack of room is told by who waits
    /// for it.
    fn told(&self, what: impl std::fmt::Display, error: &Error) -> Errno {
        let is_told = matches!(error, Error::Corrupt { .. } | Error::Io { .. });
        if is_told {
            self.troubles.failed(what, error);
        }
        error.errno()
    }

    /// The epoch of the last commit of the key-value part.
    pub fn kv_epoch(&self) -> u64 {
        self.state.lock().kv_epoch()
    }

    /// Records that named what was not there: 0 as long as the volume keeps its rules.
    pub fn strays(&self) -> u64 {
        self.state.lock().strays
    }

    /// Whether nothing was ever committed.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn is_new(&self) -> Result<bool> {
        load::is_new(&*self.kv)
    }

    /// Keys and values.
    pub fn kv(&self) -> &dyn KeyValues {
        &*self.kv
    }

    fn counters(&self) -> Counters {
        self.state.lock().counters()
    }

    fn write(&self, ino: u64, generation: u32, pages: &dyn PageSource) -> Result<Vec<Extent>> {
        if self.is_read_only {
            let why = "it was opened read-only".into();
            return Err(Error::ReadOnly { why });
        }
        let flight = self.pending.begin();
        let written = self.blocks.write(ino, generation, pages)?;
        for part in &written {
            let count = part.pages.end - part.pages.start;
            self.pending.add(part.block.segment, count);
        }
        drop(flight);
        Ok(written.into_iter().map(stored).collect())
    }
}

/// What is said of a commit that fails for another reason than lack of room: there is no other.
const ENDED: &str = "no more changes are taken (unmount, mend the disk, mount again)";

/// What is said of contents that cannot be written, as of a commit.
const UNWRITTEN: &str =
    "no more changes are taken (unmount, mend the disk, mount again): contents of inode";

/// Pages in a block as an extent of a record.
fn stored(part: PagesInBlock) -> Extent {
    let mut place = Vec::with_capacity(crate::schema::Block::SIZE);
    part.block.encode(&mut place);
    Extent {
        pages: part.pages,
        place: hearth_backend::Place::Stored(place.into()),
    }
}

/// A thing and the number of its inode.
struct Of(&'static str, u64);

impl std::fmt::Display for Of {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

impl Backend for StoreBackend {
    fn is_durable(&self) -> bool {
        true
    }

    fn restart(&self) -> std::result::Result<Option<Restart>, Errno> {
        load::restart(&*self.kv, &self.counters())
            .map_err(|error| self.told("opening the volume", &error))
    }

    fn load_inode(&self, ino: u64) -> std::result::Result<Option<Inode>, Errno> {
        load::inode(&*self.kv, ino).map_err(|error| self.told(Of("inode", ino), &error))
    }

    fn load_inodes(
        &self,
        range: Range<u64>,
    ) -> std::result::Result<Vec<(Inode, Allocation)>, Errno> {
        // Who wants one of them asks for it, and is told what is wrong.
        load_many::inodes(&*self.kv, range).map_err(|error| error.errno())
    }

    fn load_entry(&self, dir: u64, name: &[u8]) -> std::result::Result<Option<Target>, Errno> {
        load::entry(&*self.kv, dir, name)
            .map_err(|error| self.told(Of("a name of directory", dir), &error))
    }

    fn load_directory(&self, dir: u64) -> std::result::Result<Vec<(Box<[u8]>, Target)>, Errno> {
        load::directory(&*self.kv, dir)
            .map_err(|error| self.told(Of("names of directory", dir), &error))
    }

    fn load_allocation(
        &self,
        ino: u64,
        pages: Range<u64>,
    ) -> std::result::Result<Allocation, Errno> {
        load::allocation(&*self.kv, ino, &pages)
            .map_err(|error| self.told(Of("extents of inode", ino), &error))
    }

    fn load_pages(
        &self,
        ino: u64,
        pages: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> std::result::Result<(), Errno> {
        load::pages(&*self.kv, &*self.blocks, ino, pages, take)
            .map_err(|error| self.told(Of("contents of inode", ino), &error))
    }

    fn write_pages(
        &self,
        ino: u64,
        generation: u32,
        pages: &dyn PageSource,
    ) -> std::result::Result<Vec<Extent>, Errno> {
        self.check_own()
            .and_then(|()| self.write(ino, generation, pages))
            .map_err(|error| self.told(Of(UNWRITTEN, ino), &error))
    }

    fn commit(&self, epoch: u64, records: Vec<Record>) -> std::result::Result<(), Errno> {
        self.check_own()
            .and_then(|()| self.commit_records(epoch, records))
            .map_err(|error| self.told(ENDED, &error))
    }

    fn room(&self) -> Option<(u64, u64)> {
        let (all, free) = self.kv.room()?;
        // The first write into what was allocated finds room. Nothing is read for it: operations
        // ask while they hold locks.
        let promised = self.unwritten.load(Relaxed).saturating_mul(4096);
        Some((all, free.saturating_sub(promised + promised / OVERHEAD)))
    }

    fn tidy(&self) -> bool {
        self.check_own().is_ok() && self.tidy_some()
    }

    fn close(&self) -> std::result::Result<(), Errno> {
        self.check_own()
            .and_then(|()| self.kv.close())
            .map_err(|error| self.told("the end of the volume", &error))
    }
}
