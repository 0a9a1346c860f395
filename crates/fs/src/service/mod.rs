//! The work that no request waits for.

mod background;
mod committer;
mod early;

pub(crate) use background::{run_once, start};
pub(crate) use committer::start as start_committer;
pub(crate) use early::start as start_early;
