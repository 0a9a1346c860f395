//! The work that no request waits for.

mod background;
mod committer;
mod sync_leader;

pub(crate) use background::{run_once, start};
pub(crate) use committer::start as start_committer;
pub(crate) use sync_leader::start as start_sync_leader;
