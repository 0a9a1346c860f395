//! An RCU cell: a value that is replaced as a whole.

use super::RcuSlot;
use crate::epoch::Guard;

/// A value that readers see as a whole and writers replace as a whole.
#[derive(Debug)]
pub struct RcuCell<T> {
    /// Never empty.
    slot: RcuSlot<T>,
}

impl<T: Send + Sync + 'static> RcuCell<T> {
    /// A cell with `value` in it.
    pub fn new(value: T) -> RcuCell<T> {
        RcuCell {
            slot: RcuSlot::new(Box::new(value)),
        }
    }

    /// The value. Writes nothing.
    #[inline]
    pub fn load<'g>(&'g self, g: &'g Guard) -> &'g T {
        self.slot
            .load(g)
            .expect("a cell is filled by `new` and never emptied")
    }

    /// Publishes `value` and retires the old one.
    pub fn replace(&self, value: T, g: &Guard) {
        self.slot.store(Some(Box::new(value)), g);
    }

    /// The value, through exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.slot
            .get_mut()
            .expect("a cell is filled by `new` and never emptied")
    }
}
