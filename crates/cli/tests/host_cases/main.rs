//! What users of filesystems over a directory have met, tried on the directory itself and on the
//! host volume over one like it: one test for each report, named by what is right. `HRn` are the
//! numbers of `docs/reports.md`.

#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../quotas/mod.rs"]
mod quotas;

mod ahead;
mod behind;
mod case;
mod crowd;
mod data;
mod descriptors;
mod full_state;
mod identity;
mod idmapped;
mod kept_state;
mod memory;
mod mounts;
mod names;
mod positions;
mod private_mounts;
mod programs;
mod projects;
mod projects_beside;
mod removed;
mod rights;
mod rights_kept;
mod room;
mod special;
mod subordinates;
mod trouble;
mod usage;
mod watch;
