//! What users of filesystems and engines that keep data have lost, tried on a volume in a
//! directory: one test for each report, named by what is right. `SRn` are the numbers of
//! `docs/reports.md`.
//!
//! A version that has no store runs them on ext4, whose answers are the right values.

#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../stored/mod.rs"]
mod stored;

mod background;
mod bytes;
mod case;
mod copies;
mod costs;
mod dumps;
mod engine;
mod keys;
mod names;
mod opening;
mod quotas;
mod repairs;
mod room;
mod shares;
mod starts;
mod syncs;
