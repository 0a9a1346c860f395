//! The stream of names that are made, removed and renamed (`docs/design/events.md`).
//!
//! Lock order: `watch.ring` is a leaf, taken inside the buckets of names.

mod event;
mod listener;
mod paths;
mod ring;
mod teller;
#[cfg(test)]
mod tests;

pub use event::{EventInode, NameChange, NameChanger, NameEvent, NameEvents, NamePlace};
pub use listener::NameWatch;
pub use ring::NAME_EVENTS_KEPT;
pub(crate) use ring::NameRing;
pub use teller::NameTeller;
