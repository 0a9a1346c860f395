//! Mounts a Hearth volume: the kernel's FUSE requests in, calls of [`hearth::Door`] out.
//!
//! ```no_run
//! let volume = hearth::Volume::memory();
//! let options = hearth_fuse::MountOptions::parse(&["transport=auto"])?;
//! let session = hearth_fuse::Session::start(volume, "/mnt".as_ref(), options)?;
//! session.wait();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate translates and decides nothing. `docs/design/fuse.md` follows a request through it.

// A log that cannot be written to would end the thread that writes it.
#![deny(clippy::print_stderr)]

mod believed;
mod connection;
mod desk;
mod dispatch;
mod hall;
mod handles;
mod handshake;
mod init;
mod log;
mod mount;
mod notify;
mod ops;
mod options;
mod panics;
mod parked;
mod pieces;
mod policy;
mod queues;
mod reply;
mod request;
mod room;
mod service;
mod session;
mod signals;
mod suspend;
mod transport;
mod uring_switch;
mod waiting;
mod wire;
mod workers;

pub use mount::{MountError, MountRight, mount_right, resolved};
pub use options::{MountOptions, OptionError, Park, ReadDirPlus, Transport};
pub use policy::SchedPolicy;
pub use session::Session;
pub use uring_switch::{UringSwitch, uring_switch};
