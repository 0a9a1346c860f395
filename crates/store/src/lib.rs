//! The durable store: volumes that keep what they are given. See `docs/design/store.md` for the
//! design and `docs/design/format.md` for the bytes.
#![forbid(unsafe_code)]

pub mod backend;
pub mod dump;
mod error;
pub mod fsck;
mod kv;
pub mod merge;
pub mod schema;

pub use error::{Error, Result};
pub use kv::{KvOp, Read, Table};
