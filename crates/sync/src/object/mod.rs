//! Shared objects, found by number and kept by per-core references.
//!
//! A [`Table`] maps numbers to [`Object`]s, which lie in the order of their numbers. Finding one
//! writes nothing shared: the epoch keeps it alive for the length of a guard. Who needs it longer
//! takes a reference ([`Held`]), counted in the object's [`Spread`](crate::spread::Spread), so that
//! two cores that hold and release one object write different lines.
//!
//! Nobody watches such a count fall to zero. Whoever knows that an object may go (its last name
//! was removed, memory is short) asks for it with [`Table::retire`] or [`Table::evict`], which
//! find out whether a reference is left: "dead, then undo" (see `refs.rs` and
//! `docs/design/sync.md`).
//!
//! ```
//! use hearth_sync::{epoch, object::Table};
//!
//! let table = Table::new(1);
//! let held = table.insert(|number, generation| (number, generation));
//! let number = held.number();
//! let g = epoch::pin();
//! assert_eq!(table.get(number, &g).map(|object| object.0), Some(number));
//! assert!(!table.retire(&held, &g), "it is held");
//! drop(held);
//! let object = table.get(number, &g).expect("still there");
//! assert!(table.retire(object, &g));
//! assert!(table.get(number, &g).is_none());
//! ```

mod gate;
mod held;
mod numbers;
mod place;
mod radix;
mod refs;
mod slabs;
mod slot;
mod storage;
mod table;

pub use gate::{Gate, GateClosed, GateEntry};
pub use held::{Held, Object};
pub use numbers::BLOCK;
pub use refs::LANES;
pub use slot::HeldSlot;
pub use table::{Table, TableError};

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;
