//! The operations, one file per family.

mod attributes;
mod create;
mod data;
mod descriptors;
mod directories;
mod inode_flags;
mod limit_check;
mod links;
mod lock_calls;
mod lock_waits;
mod open;
mod processes;
mod rename;
mod space;
mod times;
mod xattrs;

pub use descriptors::STATUS;
