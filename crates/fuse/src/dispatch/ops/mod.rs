//! The operations, a file per family. Each method takes decoded arguments, makes one call into the
//! core and encodes what comes back.

mod attrs;
mod dirs;
mod durable_writes;
mod files;
mod ioctl;
mod locks;
mod names;
mod ranges;
mod write_back;
mod xattrs;
