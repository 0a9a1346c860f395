//! A bounded set of descriptors: those that were used last, of inodes that cannot be opened again
//! by a handle.

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use rustix::fd::OwnedFd;
use std::collections::{HashMap, VecDeque};

lock_class!(DescriptorsLock = "host.descriptors", 808);

/// Descriptors by the number of their inode. Its lock is a leaf.
#[derive(Debug)]
pub struct Descriptors {
    most: usize,
    set: Lock<DescriptorsLock, Set>,
}

#[derive(Debug, Default)]
struct Set {
    open: HashMap<u64, Slot>,
    /// Numbers with the places that they have in the order in which they came; one that was used
    /// since goes round again.
    queue: VecDeque<(u64, u64)>,
    /// The last place that was given out.
    last: u64,
}

#[derive(Debug)]
struct Slot {
    fd: Arc<OwnedFd>,
    is_used: bool,
    /// Tells it apart from one of the same inode that was removed before.
    place: u64,
}

impl Descriptors {
    /// Room for `most`.
    pub fn new(most: usize) -> Descriptors {
        Descriptors {
            most,
            set: Lock::new(Set::default()),
        }
    }

    /// The descriptor of an inode.
    pub fn get(&self, number: u64) -> Option<Arc<OwnedFd>> {
        let mut set = self.set.lock();
        let slot = set.open.get_mut(&number)?;
        slot.is_used = true;
        Some(Arc::clone(&slot.fd))
    }

    /// Keeps a descriptor, in the place of those that nobody has used.
    pub fn put(&self, number: u64, fd: &Arc<OwnedFd>) {
        let mut dropped = Vec::new();
        let mut set = self.set.lock();
        dropped.extend(set.open.remove(&number));
        // Of descriptors that were removed the queue still has the places, for a while.
        while (set.open.len() >= self.most || set.queue.len() > 2 * self.most)
            && let Some((number, place)) = set.queue.pop_front()
        {
            let is_full = set.open.len() >= self.most;
            match set.open.get_mut(&number) {
                Some(slot) if slot.place == place && (slot.is_used || !is_full) => {
                    slot.is_used = false;
                    set.queue.push_back((number, place));
                }
                Some(slot) if slot.place == place => dropped.extend(set.open.remove(&number)),
                _ => {}
            }
        }
        set.last += 1;
        let place = set.last;
        let slot = Slot {
            fd: Arc::clone(fd),
            is_used: false,
            place,
        };
        set.open.insert(number, slot);
        set.queue.push_back((number, place));
        drop(set);
        // Closed outside the lock.
        drop(dropped);
    }

    /// Takes out the descriptor of an inode.
    pub fn remove(&self, number: u64) -> Option<Arc<OwnedFd>> {
        let slot = self.set.lock().open.remove(&number);
        slot.map(|slot| slot.fd)
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.set.lock().open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Arc<OwnedFd> {
        Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()))
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes_first() {
        let set = Descriptors::new(3);
        for number in 1..=3 {
            set.put(number, &open());
        }
        assert!(set.get(1).is_some());
        set.put(4, &open());
        assert_eq!(set.len(), 3);
        assert!(set.get(2).is_none(), "the oldest that nobody used");
        assert!(set.get(1).is_some() && set.get(4).is_some());
        set.remove(4);
        assert!(set.get(4).is_none());
        for number in 10..1000 {
            set.put(number, &open());
            assert!(set.len() <= 3);
        }
    }

    #[test]
    fn numbers_that_came_and_went_are_not_remembered() {
        let set = Descriptors::new(4);
        set.put(1, &open());
        for number in 10..1000 {
            set.put(number, &open());
            set.remove(number);
            set.put(2, &open());
            set.remove(2);
            set.put(3, &open());
        }
        assert!(set.get(1).is_some());
        assert!(set.set.lock().queue.len() <= 9);
    }

    #[test]
    fn a_set_in_which_all_are_used_takes_new_ones() {
        let set = Descriptors::new(2);
        for number in 0..100 {
            set.put(number, &open());
            assert!(set.get(number).is_some());
        }
        assert_eq!(set.len(), 2);
    }
}
