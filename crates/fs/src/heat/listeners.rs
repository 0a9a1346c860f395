//! Subscribers to changes of band, and the changes that a drain collects for them.
//!
//! Accesses know nothing of them: a drain compares the buckets before and after, and only while
//! somebody subscribes.

use super::band::Band;
use super::percpu::RANGE_SHIFT;
use super::record::WHOLE;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};

lock_class!(ListenersLock = "heat.listeners", 965);

/// A file or range whose band changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatChange {
    /// Inode number.
    pub ino: u64,
    /// First byte of the range; `None` for the file as a whole.
    pub range: Option<u64>,
    /// Band that it had.
    pub from: Band,
    /// Band that it has.
    pub to: Band,
    /// The new bucket.
    pub bucket: u8,
}

pub(super) type Callback = dyn Fn(&[HeatChange]) + Send + Sync;

/// The subscribers of one volume.
#[derive(Default)]
pub(super) struct Listeners {
    /// How many there are. Relaxed: a subscriber that comes beside a drain may miss its changes.
    count: AtomicUsize,
    list: Lock<ListenersLock, List>,
}

#[derive(Default)]
struct List {
    next: usize,
    callbacks: Vec<(usize, Arc<Callback>)>,
}

impl Listeners {
    /// A list for changes, if there is a subscriber.
    pub fn wanted(&self) -> Option<Vec<HeatChange>> {
        (self.count.load(Ordering::Relaxed) > 0).then(Vec::new)
    }

    /// Calls all subscribers, with no lock held.
    pub fn tell(&self, changes: Option<Vec<HeatChange>>) {
        let changes = changes.unwrap_or_default();
        if changes.is_empty() {
            return;
        }
        let told: Vec<Arc<Callback>> = {
            let list = self.list.lock();
            list.callbacks
                .iter()
                .map(|(_, told)| Arc::clone(told))
                .collect()
        };
        for told in told {
            told(&changes);
        }
    }

    pub fn add(&self, told: Arc<Callback>) -> usize {
        let mut list = self.list.lock();
        list.next += 1;
        let number = list.next;
        list.callbacks.push((number, told));
        self.count.store(list.callbacks.len(), Ordering::Relaxed);
        number
    }

    /// Removes a subscriber. Its callback is dropped after the lock.
    pub fn remove(&self, number: usize) {
        let mut list = self.list.lock();
        let at = list
            .callbacks
            .iter()
            .position(|(other, _)| *other == number);
        let gone = at.map(|at| list.callbacks.swap_remove(at));
        self.count.store(list.callbacks.len(), Ordering::Relaxed);
        drop(list);
        drop(gone);
    }
}

/// Notes that a record moved from one bucket to another, if its band changed.
pub(super) fn note(
    changes: &mut Option<Vec<HeatChange>>,
    (ino, range): (u64, u64),
    from: u8,
    to: u8,
) {
    let Some(changes) = changes else {
        return;
    };
    let (before, after) = (Band::of_bucket(from), Band::of_bucket(to));
    if before != after {
        changes.push(HeatChange {
            ino,
            range: (range != WHOLE).then_some(range << RANGE_SHIFT),
            from: before,
            to: after,
            bucket: to,
        });
    }
}
