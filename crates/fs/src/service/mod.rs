//! The work that no request waits for.

mod background;

pub(crate) use background::{run_once, start};
