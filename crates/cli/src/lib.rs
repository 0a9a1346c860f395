//! The command line of Hearth: arguments in, one call into `hearth-fuse` or one read of a control
//! file, text out. Nothing here knows how a filesystem works.

#![forbid(unsafe_code)]
// A log that cannot be written to would end the thread that writes it.
#![deny(clippy::print_stderr)]

mod accounts;
mod allocator;
mod args;
mod ask;
mod cgroup;
mod config;
mod control_file;
mod disk_silence;
mod doctor;
mod events;
mod failure;
mod fstab;
mod generate;
mod heat;
mod host;
mod inquiry;
mod last_sync;
mod locks;
mod maintenance;
mod metrics;
mod moment;
mod mount;
mod mounted_info;
mod mounts;
mod naming;
mod output;
mod patience;
mod printable;
mod question;
mod quota;
mod readiness;
mod remount;
mod room;
mod run;
mod sched;
mod serve;
mod served;
mod signals;
mod sloppy;
mod stats;
mod store;
mod sync;
mod top;
mod tune;
mod umount;
mod verbs;
mod which;
mod wrong_place;

pub use verbs::run;
