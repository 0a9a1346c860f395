//! Which inodes are counted, while the tree is walked for what is used.

use crate::identity::Identity;
use crate::node::Node;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use std::collections::HashSet;

lock_class! {
    CountedLock = "host.counted", 812;
    MovedLock = "host.moved", 813;
}

const SHARDS: usize = 64;

/// Device and inode number. A number that is given out again is taken out first.
pub type Key = (u64, u64);

/// The inodes that are counted.
#[derive(Debug)]
pub struct Counting {
    /// Relaxed: it is set before the mount can be seen, and cleared long after the walk.
    on: AtomicBool,
    counted: Vec<Lock<CountedLock, HashSet<Key>>>,
    /// Directories that were renamed meanwhile.
    moved: Lock<MovedLock, Vec<Arc<Node>>>,
}

impl Counting {
    /// Nothing is counted yet; or everything is, if `is_on` is false.
    pub fn new(is_on: bool) -> Counting {
        Counting {
            on: AtomicBool::new(is_on),
            counted: (0..SHARDS).map(|_| Lock::new(HashSet::new())).collect(),
            moved: Lock::new(Vec::new()),
        }
    }

    /// Whether the walk goes on.
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// The walk is over.
    pub fn end(&self) {
        self.on.store(false, Relaxed);
        for shard in &self.counted {
            *shard.lock() = HashSet::new();
        }
    }

    /// Runs `charge` if the inode is not counted yet, which it is from now on. False if it was.
    pub fn count(&self, id: &Identity, charge: impl FnOnce()) -> bool {
        self.count_key((id.dev, id.ino), charge)
    }

    /// By device and number.
    pub fn count_key(&self, key: Key, charge: impl FnOnce()) -> bool {
        if !self.is_on() {
            return false;
        }
        let mut shard = self.of(key).lock();
        let is_first = shard.insert(key);
        if is_first {
            charge();
        }
        is_first
    }

    /// The inode is gone.
    pub fn forget(&self, id: &Identity) {
        if self.is_on() {
            let key = (id.dev, id.ino);
            self.of(key).lock().remove(&key);
        }
    }

    /// A directory has moved, perhaps from where the walk has not been to where it has.
    pub fn moved(&self, directory: Arc<Node>) {
        if self.is_on() {
            self.moved.lock().push(directory);
        }
    }

    /// Directories that have moved since the last call.
    pub fn take_moved(&self) -> Vec<Arc<Node>> {
        std::mem::take(&mut *self.moved.lock())
    }

    fn of(&self, (dev, ino): Key) -> &Lock<CountedLock, HashSet<Key>> {
        &self.counted[(dev ^ ino) as usize % SHARDS]
    }
}
