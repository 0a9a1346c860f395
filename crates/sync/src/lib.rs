//! Building blocks that keep commuting operations off each other's cache lines.
//!
//! Everything above this crate is safe code: the unsafe parts of memory reclamation, raced file
//! bytes and per-core references live here, under a safe interface.
//!
//! | module | is |
//! |---|---|
//! | [`primitive`] | threads, locks and atomics; `loom` and `shuttle` replace them |
//! | [`epoch`] | guards, and values that are dropped when nobody can see them any more |
//! | [`rcu`] | slots that readers look through without a write |
//! | [`seq`] | sequence counts: several words read as one |
//! | [`percpu`] | counters that split into per-core parts when a second core shows up |
//! | [`object`] | objects found by number and kept by per-core references |
//! | [`lock`] | locks with a class, whose order is checked in debug builds |
//! | [`profile`] | which locks threads wait for, and for how long |
//! | [`atomic_bytes`] | bytes that may be raced without undefined behaviour |
//! | [`map`] | a concurrent map for read-mostly side tables |
//!
//! `docs/design/sync.md` has the protocols with their states and orderings.

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
