//! RCU pointers: readers load them without a write.
//!
//! A slot owns the value that it points to, or a share of it. Readers load the pointer under a
//! guard; writers publish a new value and retire the old one. These rules hold for all kinds:
//!
//! | who | does | ordering | partner |
//! |---|---|---|---|
//! | reader | loads the pointer | Acquire | the publishing swap or fill: the value is complete |
//! | writer | swaps the pointer | AcqRel | readers' loads; the writer of the old value |
//! | writer | fills an empty slot that it alone may fill | Release | readers' loads |
//! | owner | drops the slot, `get_mut` | none needed | `&mut` is exclusive |
//!
//! The result of `load` borrows the guard *and* the slot: the slot's owner frees the value at once
//! when it is dropped, without waiting for guards. A slot inside an object that is itself found
//! under the guard lives as long as the guard, so the second borrow costs nothing there.

mod once_slot;
mod rcu_cell;
mod rcu_slot;
mod share;
mod share_slot;
mod tag_slot;

pub use once_slot::OnceSlot;
pub use rcu_cell::RcuCell;
pub use rcu_slot::RcuSlot;
pub use share::Share;
pub use share_slot::{Removed, ShareSlot, Shared};
pub use tag_slot::TagSlot;

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;
