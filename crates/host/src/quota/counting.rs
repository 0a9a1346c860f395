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
    moved: Lock<MovedLock, MovedDirectories>,
}

/// Directories that were renamed meanwhile.
#[derive(Debug, Default)]
struct MovedDirectories {
    /// Those that are still to be walked.
    waiting: Vec<Arc<Node>>,
    /// These need no walk but one that waits already. From its beginning on, what is in one is
    /// counted by it, or by whoever moves it, or is noted itself. Else a program that renames a
    /// directory all the time would keep the limits from ever holding.
    noted: HashSet<Key>,
}

impl Counting {
    /// Nothing is counted yet; or everything is, if `is_on` is false.
    pub fn new(is_on: bool) -> Counting {
        Counting {
            on: AtomicBool::new(is_on),
            counted: (0..SHARDS).map(|_| Lock::new(HashSet::new())).collect(),
            moved: Lock::default(),
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
        *self.moved.lock() = MovedDirectories::default();
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
            self.moved.lock().noted.remove(&key);
        }
    }

    /// A directory has moved, perhaps from where the walk has not been to where it has.
    pub fn moved(&self, directory: Arc<Node>) {
        if self.is_on() {
            let mut moved = self.moved.lock();
            if moved.noted.insert((directory.id.dev, directory.id.ino)) {
                moved.waiting.push(directory);
            }
        }
    }

    /// A directory was made: whoever puts something into it counts that.
    pub fn made(&self, directory: &Identity) {
        if self.is_on() {
            let mut moved = self.moved.lock();
            moved.noted.insert((directory.dev, directory.ino));
        }
    }

    /// Directories that have moved for the first time since the last call.
    pub fn take_moved(&self) -> Vec<Arc<Node>> {
        std::mem::take(&mut self.moved.lock().waiting)
    }

    fn of(&self, (dev, ino): Key) -> &Lock<CountedLock, HashSet<Key>> {
        &self.counted[(dev ^ ino) as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes;
    use hearth::Kind;
    use rustix::fd::AsFd;

    fn directory() -> Arc<Node> {
        let fd = std::fs::File::open("/").unwrap();
        let stat = attributes::stat(fd.as_fd()).unwrap();
        let id = Identity::of(fd.as_fd(), &stat);
        Arc::new(Node::new(2, id, Kind::Directory, None))
    }

    /// Once, a user who renamed a directory in a loop kept the count from its end, and the limits
    /// of everybody from holding: each rename was one more walk.
    #[test]
    fn a_directory_is_walked_once_however_often_it_is_renamed() {
        let (counting, directory) = (Counting::new(true), directory());
        for _ in 0..3 {
            counting.moved(Arc::clone(&directory));
        }
        assert_eq!(counting.take_moved().len(), 1);
        counting.moved(Arc::clone(&directory));
        assert!(counting.take_moved().is_empty());
        // Another one has its number.
        counting.forget(&directory.id);
        counting.moved(Arc::clone(&directory));
        assert_eq!(counting.take_moved().len(), 1);
        counting.forget(&directory.id);
        counting.made(&directory.id);
        counting.moved(directory);
        assert!(counting.take_moved().is_empty());
    }
}
