//! Settings of a volume that outlive it: how each is written down, and who reads it again.
//!
//! A setting is a [`Record::Setting`](crate::backend::Record::Setting): a key and a value. Keys are
//! text and begin with the prefix of their kind (`key.rs`). Values are text (`words.rs`), and bytes
//! for heat (`bytes.rs`, `crate::heat`). Each begins with the version of its form. A key of an
//! unknown kind is of a newer program and stays as it is. A value that cannot be read is counted
//! ([`crate::Event::SettingIgnored`]), stays as it is and hides no other.
//!
//! Whoever changes a setting records it under the lock that orders its changes:
//!
//! | kind | written by | lock |
//! |---|---|---|
//! | limits, grace periods, ends of grace | the quota state (`quota.rs`) | `quota.state` |
//! | heat | `crate::heat`, in portions | `heat.keep` |
//! | weights and rate limits of tenants | `volume.rs` | `settings.order` |
//! | tunables of heat | `volume.rs` | `settings.order` |
//!
//! What an option of the mount sets is no setting: each mount sets it anew.

pub(crate) mod bytes;
pub(crate) mod key;
mod open;
pub(crate) mod quota;
mod tenants;
mod tunables;
mod volume;
pub(crate) mod words;
