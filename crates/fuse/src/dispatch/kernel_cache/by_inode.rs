//! A side table of inodes that most requests find empty.
//!
//! Requests on any core look into it, and some change it, so it has several locks, each on lines of
//! its own. A request whose part of the table is empty takes none.

use hearth_sync::lock::{Class, Lock};
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;

const PARTS: usize = 16;
/// Entries that a part keeps room for.
const KEPT: usize = 64;

/// What is known of inodes, by number.
pub(crate) struct ByInode<C: Class, T> {
    parts: [Part<C, T>; PARTS],
}

/// Two cache lines, because processors fetch two at once.
#[repr(align(128))]
struct Part<C: Class, T> {
    entries: Lock<C, HashMap<u64, T>>,
    /// Size of `entries`. Relaxed: each user of the table says why it sees what it has to.
    count: AtomicUsize,
}

impl<C: Class, T> Default for ByInode<C, T> {
    fn default() -> ByInode<C, T> {
        let part = |_| Part {
            entries: Lock::new(HashMap::new()),
            count: AtomicUsize::new(0),
        };
        ByInode {
            parts: std::array::from_fn(part),
        }
    }
}

impl<C: Class, T> ByInode<C, T> {
    /// Whether the part of `ino` has entries; false without taking its lock.
    pub fn may_know(&self, ino: u64) -> bool {
        self.part(ino).count.load(Ordering::Relaxed) > 0
    }

    /// Applies `look` to the part of `ino`, under its lock.
    pub fn with<R>(&self, ino: u64, look: impl FnOnce(&mut HashMap<u64, T>) -> R) -> R {
        self.part(ino).with(look)
    }

    /// Whether no part has an entry.
    pub fn is_empty(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.all(|part| part.entries.lock().is_empty())
    }

    /// Takes all entries, part by part.
    pub fn drain(&self) -> HashMap<u64, T> {
        let parts = self.parts.iter();
        parts.flat_map(|part| part.with(std::mem::take)).collect()
    }

    fn part(&self, ino: u64) -> &Part<C, T> {
        &self.parts[ino as usize % PARTS]
    }
}

impl<C: Class, T> Part<C, T> {
    fn with<R>(&self, look: impl FnOnce(&mut HashMap<u64, T>) -> R) -> R {
        let mut entries = self.entries.lock();
        let seen = look(&mut entries);
        let count = entries.len();
        self.count.store(count, Ordering::Relaxed);
        // A million files that are gone would keep their room.
        if entries.capacity() > KEPT && count < entries.capacity() / 8 {
            entries.shrink_to(2 * count);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_sync::lock_class;

    lock_class!(TestLock = "test.by-inode", 1);

    #[test]
    fn an_entry_is_in_its_part_until_it_is_taken() {
        let table = ByInode::<TestLock, u8>::default();
        assert!(table.is_empty() && !table.may_know(7));
        let other = 7 + PARTS as u64;
        for (ino, value) in [(7, 1), (other, 2), (8, 3)] {
            assert_eq!(table.with(ino, |part| part.insert(ino, value)), None);
        }
        assert!(table.may_know(7) && table.may_know(8) && !table.may_know(9));
        assert_eq!(table.with(other, |part| part.remove(&other)), Some(2));
        assert!(table.may_know(7), "another is left in its part");
        table.with(8, |part| {
            part.extend((0..1000).map(|n| (8 + PARTS as u64 * n, 3)))
        });
        table.with(8, |part| part.retain(|&ino, _| ino == 8));
        assert!(table.with(8, |part| part.capacity()) <= 2 * KEPT);
        assert_eq!(table.drain(), HashMap::from([(7, 1), (8, 3)]));
        assert!(table.is_empty() && !table.may_know(7) && !table.may_know(8));
    }
}
