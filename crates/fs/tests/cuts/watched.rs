//! A backend that notes how far the script was when an epoch was committed.

use hearth::backend::{Allocation, Backend, Extent, Inode, PageSource, Record, Restart};
use hearth::{Errno, Target};
use hearth_store::backend::StoreBackend;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

type Result<T> = std::result::Result<T, Errno>;

/// Which position of the script each epoch holds.
#[derive(Default)]
pub struct Commits {
    /// How many calls of the script have been made, the one under way included.
    pub position: AtomicU64,
    epochs: Mutex<BTreeMap<u64, u64>>,
}

impl Commits {
    /// The positions of all epochs that were given to the backend.
    pub fn epochs(&self) -> BTreeMap<u64, u64> {
        self.epochs.lock().unwrap().clone()
    }
}

/// A store whose commits are noted.
pub struct Watched {
    pub store: Arc<StoreBackend>,
    pub commits: Arc<Commits>,
}

impl Backend for Watched {
    fn is_durable(&self) -> bool {
        true
    }

    fn restart(&self) -> Result<Option<Restart>> {
        self.store.restart()
    }

    fn load_inode(&self, ino: u64) -> Result<Option<Inode>> {
        self.store.load_inode(ino)
    }

    fn load_inodes(&self, range: Range<u64>) -> Result<Vec<(Inode, Allocation)>> {
        self.store.load_inodes(range)
    }

    fn load_entry(&self, dir: u64, name: &[u8]) -> Result<Option<Target>> {
        self.store.load_entry(dir, name)
    }

    fn load_directory(&self, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>> {
        self.store.load_directory(dir)
    }

    fn load_allocation(&self, ino: u64, pages: Range<u64>) -> Result<Vec<(Range<u64>, bool)>> {
        self.store.load_allocation(ino, pages)
    }

    fn load_pages(
        &self,
        ino: u64,
        pages: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<()> {
        self.store.load_pages(ino, pages, take)
    }

    fn write_pages(
        &self,
        ino: u64,
        generation: u32,
        pages: &dyn PageSource,
    ) -> Result<Vec<Extent>> {
        self.store.write_pages(ino, generation, pages)
    }

    fn commit(&self, epoch: u64, records: Vec<Record>) -> Result<()> {
        let position = self.commits.position.load(Relaxed);
        self.commits.epochs.lock().unwrap().insert(epoch, position);
        self.store.commit(epoch, records)
    }

    fn room(&self) -> Option<(u64, u64)> {
        self.store.room()
    }

    fn tidy(&self) -> bool {
        self.store.tidy()
    }

    fn close(&self) -> Result<()> {
        self.store.close()
    }
}
