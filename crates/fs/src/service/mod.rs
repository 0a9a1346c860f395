//! The work that no request waits for.

mod background;
mod committer;
mod early;
mod sync_leader;
mod unsaved;

pub(crate) use background::{run_once, start};
pub(crate) use committer::start as start_committer;
pub(crate) use early::start as start_early;
pub(crate) use sync_leader::start as start_sync_leader;
