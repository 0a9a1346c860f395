//! The work that no request waits for.

mod background;
mod committer;

pub(crate) use background::{run_once, start};
pub(crate) use committer::start as start_committer;
