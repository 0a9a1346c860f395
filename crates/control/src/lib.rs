//! The control files of a volume: the text, the JSON and the commands below `/.hearth`.
//!
//! The filesystem knows control files as inodes only ([`hearth::ControlFile`]); this crate says
//! what they contain and what they take. [`install`] adds them to a volume; a mount does so by
//! itself.
//!
//! ```
//! let volume = hearth::Volume::memory();
//! hearth_control::install(&volume)?;
//! let process = volume.process(hearth::Credentials::root());
//! let fd = process.open("/.hearth/version", libc::O_RDONLY, 0)?;
//! let mut text = [0; 64];
//! let len = process.read(fd, &mut text)?;
//! assert!(text[..len].starts_with(b"hearth "));
//! # Ok::<(), hearth::Errno>(())
//! ```
#![forbid(unsafe_code)]
// A log that cannot be written to would end the thread that writes it.
#![deny(clippy::print_stderr)]

mod command;
mod entry;
mod events;
mod file_locks;
mod files;
mod heat;
mod hex;
mod locks;
mod quota;
mod sched;
mod stats;
mod tunables;

pub use files::install;
pub use heat::{BadLine, bad_lines, export_text};
