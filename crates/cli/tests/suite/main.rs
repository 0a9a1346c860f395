//! The suites on real mounts that may run beside each other, in one program: each is a module.
//!
//! A suite that measures, fills the machine or changes its own process is a program of its own
//! beside this folder.

#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../quotas/mod.rs"]
mod quotas;

mod atime;
mod c_project;
mod cli;
mod config;
mod containers;
mod control;
mod dumps;
mod events;
mod every_verb;
mod file_attr;
mod first_hour;
mod fsx;
mod git;
mod heat;
mod host;
mod host_heat;
mod idmapped;
mod kernel_limits;
mod metrics;
mod model;
mod mount_rights;
mod names;
mod narrow_programs;
mod passthrough;
mod place;
mod quota;
mod quota_events;
mod quota_refusals;
mod quota_returns;
mod quota_rights;
mod quota_rules;
mod remount;
mod rsync_tar;
mod run;
mod run_signals;
mod running_program;
mod shells;
mod sqlite;
mod statx;
mod store;
mod store_rights;
mod top;
mod tune;
mod umount;
