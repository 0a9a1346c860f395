//! Mounts a Hearth volume: the kernel's FUSE requests in, calls of [`hearth::Vfs`] out.
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

mod dispatch;
mod log;
mod mount;
mod placement;
mod transport;
mod wait;
mod wire;

pub use mount::options::{MountOptions, Passthrough, ReadDirPlus, Transport};
pub use mount::session::Session;
pub use mount::uring_switch::{UringSwitch, uring_switch};
pub use mount::{
    MountError, MountRight, OptionError, check_device, check_mountpoint, mount_right, resolved,
    split_options,
};
pub use placement::idle_policy::SchedPolicy;
pub use wait::Park;
