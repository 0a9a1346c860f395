//! Control files: the files below `/.hearth`, as far as the filesystem knows them.
//!
//! They are inodes like others, with numbers from [`crate::number::CONTROL`] on, in a directory
//! that lookup finds and listings of the root do not show. What they say and take comes from
//! outside, through [`ControlFile`]. Operations know them only by the traits of
//! [`crate::superblock`], which one open of such a file implements (`session`).

mod dir;
mod file;
mod held;
mod reason;
mod session;

pub(crate) use dir::make_dir;
pub use file::{ControlError, ControlFile, ControlInput, ControlStream};
