//! A directory of the host as a [`hearth::Vfs`]: every operation is a system call on it.
//!
//! Nothing is copied, converted or hidden; the files stay ordinary files where they are.
//! [`HostVfs::open`] opens a directory, and a session of `hearth-fuse` serves it.
//! `docs/design/host.md` has the rules.

// A log that cannot be written to would end the thread that writes it.
#![deny(clippy::print_stderr)]

mod acting;
mod attributes;
mod checked;
mod chunks;
mod closer;
mod cookies;
mod descriptor_room;
mod descriptors;
mod errno;
mod error;
mod file;
mod file_descriptor;
mod file_events;
mod fnv;
mod handle;
mod heat;
mod heat_by;
mod identity;
mod kernel_cache;
mod listing;
mod node;
mod nodes;
mod ops;
mod over;
mod pending_call;
mod private_mounts;
mod proc_status;
mod pseudo;
mod quota;
mod reach;
mod retries;
mod rights;
mod say;
mod shrinker;
mod state;
mod subordinate_ids;
mod sys;
mod tell_names;
mod through;
mod trail;
mod tree;
mod user;
mod vfs;
mod watch;

pub use error::OpenError;
pub use file::HostFile;
pub use heat_by::HeatBy;
pub use pseudo::pseudo_filesystem;
pub use quota::Refusal;
pub use tree::HostOptions;
pub use vfs::HostVfs;
