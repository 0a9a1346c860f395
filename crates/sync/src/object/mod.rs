//! Shared objects, found by number and kept alive by per-CPU reference counts.
//!
//! A [`Table`] maps numbers to [`Object`]s, which are stored in the order of their numbers. A
//! lookup writes nothing shared: the epoch keeps the object alive for the length of a guard. A
//! caller that needs it longer takes a reference ([`ObjRef`]). References are counted in the
//! object's [`PerCpuCounters`](crate::percpu::PerCpuCounters), so two cores that take and release
//! references to one object write different cache lines.
//!
//! Such a count is never seen to reach zero by itself. A caller that knows that an object may go
//! (its last name was removed, memory is short) asks with [`Table::retire`] or [`Table::evict`].
//! These find out whether a reference is left, by the protocol "dead, then undo" (see
//! `lifecycle.rs` and `docs/design/sync.md`).
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

mod entry;
mod lifecycle;
mod numbers;
mod obj_ref;
mod percpu_rwlock;
mod radix;
mod ref_slot;
mod slabs;
mod storage;
mod table;
mod try_cell;

pub use lifecycle::SLOTS;
pub use numbers::BLOCK;
pub use obj_ref::{ObjRef, Object};
pub use percpu_rwlock::{PerCpuRwLock, ReadGuard, WriteGuard};
pub use ref_slot::RefSlot;
pub use table::{Table, TableError};

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;
