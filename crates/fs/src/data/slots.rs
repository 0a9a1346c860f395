//! The slots of a node of the tree.

use hearth_sync::rcu::RcuSlot;

/// Slots of a node.
pub(super) const FAN: u64 = 64;

/// Slots on cache lines of their own. A slot is written when it is first filled and when it is
/// emptied. Eight slots share a line, those of every eighth page: neighbours, which different
/// threads often write first at the same time, lie on different lines. Overwriting a page in memory
/// writes the page only.
#[repr(align(64))]
pub(super) struct SlotLines<T>([RcuSlot<T>; FAN as usize]);

impl<T: Send + Sync + 'static> SlotLines<T> {
    pub(super) fn empty() -> SlotLines<T> {
        SlotLines(std::array::from_fn(|_| RcuSlot::empty()))
    }

    /// The slot of the page group `number`, counted in children of this level.
    pub(super) fn at(&self, number: u64) -> &RcuSlot<T> {
        &self.0[place_of(number)]
    }

    /// The slots, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &RcuSlot<T>> {
        self.0.iter()
    }

    pub(super) fn are_vacant(&self) -> bool {
        self.all().all(|slot| slot.is_empty())
    }
}

/// Index of the slot of a number: rows and columns of eight are exchanged.
fn place_of(number: u64) -> usize {
    const ROW: u64 = 8;
    let at = number % FAN;
    (at % ROW * (FAN / ROW) + at / ROW) as usize
}
