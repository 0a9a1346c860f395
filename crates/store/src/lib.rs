//! The durable store: volumes that keep what they are given. See `docs/design/store.md` for the
//! design and `docs/design/format.md` for the bytes.
#![deny(unsafe_code)]

pub mod backend;
pub mod codec;
pub mod disk;
pub mod dump;
pub mod engine;
mod error;
pub mod fsck;
mod given_file;
mod kv;
mod memory;
pub mod merge;
pub mod schema;
pub mod segment;
mod troubles;
mod volume;

pub use disk::lock::{READS, UNNAMED};
pub use error::{Error, Result};
pub use given_file::GivenFile;
pub use kv::{KvOp, Read, Table};
pub use memory::MemoryParts;
pub use troubles::Troubles;
pub use volume::{FrameCipher, Info, Kv, MkfsOptions, OpenMode, OpenOptions, Parts};
