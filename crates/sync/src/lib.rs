//! Building blocks that keep commuting operations off each other's cache lines.
//!
//! All code above this crate is safe. The unsafe parts of memory reclamation, racy file bytes and
//! per-CPU references live here, behind a safe interface.
//!
//! | module | is |
//! |---|---|
//! | [`primitive`] | threads, locks and atomics; `loom` and `shuttle` replace them |
//! | [`epoch`] | epoch-based memory reclamation: guards, deferred drops |
//! | [`rcu`] | RCU pointers: readers load them without a write |
//! | [`seq`] | sequence counts and sequence locks |
//! | [`percpu`] | one value per core, and counters that become per-CPU on first contention |
//! | [`object`] | objects found by number, with per-CPU reference counts and a per-CPU rwlock |
//! | [`lock`] | locks with a class, whose order is checked in debug builds |
//! | [`profile`] | the lock profile: which locks threads wait for, and for how long |
//! | [`atomic_bytes`] | byte buffers that may be read and written concurrently |
//! | [`map`] | a concurrent map for read-mostly side tables |
//!
//! `docs/design/sync.md` has the protocols with their states and orderings. "Core" means a logical
//! CPU as the kernel numbers it.

#[cfg(all(feature = "loom", feature = "shuttle"))]
compile_error!("the features `loom` and `shuttle` exclude each other");

pub mod atomic_bytes;
pub mod epoch;
pub mod lock;
pub mod map;
pub mod object;
pub mod percpu;
pub mod primitive;
pub mod profile;
pub mod rcu;
pub mod seq;
