//! A script with the fact that it checks.

use crate::op::Op;

/// The fact, and the steps that show it.
pub type Script = (&'static str, Vec<(usize, Op)>);
