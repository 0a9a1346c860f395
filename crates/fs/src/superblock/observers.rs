//! The observers of a volume: read under an epoch guard, replaced as a whole.

use super::Superblock;
use crate::observer::Observer;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::lock::RawLock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::rcu::RcuCell;

lock_class!(ObserversLock = "volume.observing", 15);

/// Everyone who is notified of changes.
pub(crate) struct Observers {
    list: RcuCell<Vec<Arc<dyn Observer>>>,
    /// Serialises writers of `list`.
    writer: RawLock<ObserversLock>,
}

impl Observers {
    pub fn new() -> Observers {
        Observers {
            list: RcuCell::new(Vec::new()),
            writer: RawLock::new(),
        }
    }

    /// The observers as of now.
    #[inline]
    pub fn load<'g>(&'g self, g: &'g Guard) -> &'g Vec<Arc<dyn Observer>> {
        self.list.load(g)
    }

    /// Replaces the list by what `change` makes of it.
    pub fn change(&self, change: impl FnOnce(&mut Vec<Arc<dyn Observer>>)) {
        let _one = self.writer.lock_guard();
        let g = pin();
        let mut list = self.list.load(&g).clone();
        change(&mut list);
        self.list.replace(list, &g);
    }
}

impl Superblock {
    /// The observers of the volume as of now.
    pub fn observers(&self) -> Vec<Arc<dyn Observer>> {
        self.observers.load(&pin()).clone()
    }
}
