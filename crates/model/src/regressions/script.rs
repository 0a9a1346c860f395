//! A script with its fact.

use crate::op::Op;

/// What holds, and the steps that show it.
pub type Script = (&'static str, Vec<(usize, Op)>);
