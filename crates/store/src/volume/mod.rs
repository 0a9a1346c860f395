//! A volume of keys and values: superblock, commit log and checkpoints over an engine.
//!
//! Lock order, outermost first:
//!
//! ```text
//! Shared::checkpointing
//!   Shared::log
//!     Shared::layers
//!       Shared::engine
//!   Shared::superblock
//! Shared::witness
//!   Shared::superblock
//! Shared::latched, Background::asked: nothing is taken under them
//! ```
//!
//! A scan holds `engine` for reading while it calls its visitor, and the visitor may read again. So
//! nobody queues to write it: who opens the engine anew tries until it is free, in the end behind a
//! [`gate::Gate`] that keeps other reads out.

mod background;
mod ballast;
mod checkpoint;
mod fields;
mod file_names;
mod frame;
mod gate;
mod keys;
mod large;
mod loading;
mod log;
mod log_blocks;
mod mkfs;
mod open;
mod options;
mod overlay;
mod replay;
mod shared;
mod sorted_map;
mod superblock;
mod upkeep;
mod witness;

#[cfg(test)]
mod tests;

pub use keys::Kv;
pub use options::{FrameCipher, Info, MkfsOptions, OpenMode, OpenOptions, Parts};

/// Frames begin at multiples of this, in bytes.
pub(crate) const BLOCK: u64 = 4096;
/// Files of the log.
pub(crate) const LOG_FILES: u64 = 4;

/// A BLAKE3.
pub(crate) type FrameDigest = [u8; 32];

pub(crate) fn log_name(file: u64) -> String {
    format!("log/{file}")
}
