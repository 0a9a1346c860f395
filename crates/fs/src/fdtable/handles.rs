//! How many descriptors name one open file description.

use hearth_sync::primitive::atomic::{AtomicU32, Ordering};
use hearth_sync::rcu::Shared;

/// Something that descriptors can name.
pub trait Described: Send + Sync + 'static {
    /// Its count of descriptors. Only [`super::FdTable`] changes it.
    fn handles(&self) -> &Handles;
}

/// A count of descriptors, over all tables. Once zero, it stays zero.
///
/// It is not a memory count: a reader that looked a description up may still use it after the last
/// descriptor is gone, and its memory is freed when no reader can hold it any more.
#[derive(Debug)]
pub struct Handles {
    count: AtomicU32,
}

/// The description that a descriptor named until now. It still counts as a descriptor until it is
/// given up, so that its resources exist while the closer cleans up.
#[derive(Debug)]
#[must_use = "a closed descriptor counts until it is given up"]
pub struct Closed<'g, T> {
    /// The description.
    pub file: Shared<'g, T>,
}

impl Default for Handles {
    fn default() -> Handles {
        Handles::new()
    }
}

impl Handles {
    /// One: the descriptor that the new description is about to be installed under.
    pub const fn new() -> Handles {
        Handles {
            count: AtomicU32::new(1),
        }
    }

    /// Adds one, unless the count is zero.
    pub(super) fn retain(&self) -> bool {
        // Relaxed: the caller has the description from a slot it loaded with Acquire, and the
        // count guards no other memory.
        let more = |count: u32| {
            if count == 0 {
                None
            } else {
                count.checked_add(1)
            }
        };
        self.count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Subtracts one; true when that was the last.
    pub(super) fn release(&self) -> bool {
        // AcqRel: pairs with itself in the other closers, so that the last closer sees all that was
        // done through the description before the others closed.
        self.count.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl<'g, T: Described> Closed<'g, T> {
    /// Takes the descriptor off the count; the description comes back if that was the last one.
    /// Exactly one closer gets it.
    pub fn give_up(self) -> Option<Shared<'g, T>> {
        self.file.handles().release().then_some(self.file)
    }
}
