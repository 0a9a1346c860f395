//! Operations, one file for each family: each is a system call, or the few that it takes.

pub mod attrs;
pub mod files;
pub mod flags;
pub mod names;
pub mod projects;
pub mod ranges;
pub mod writers;
pub mod xattrs;
