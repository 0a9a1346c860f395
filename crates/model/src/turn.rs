//! Scripts in which calls wait.

use crate::compare::source;
use crate::op::Op;

/// A step of a script in which lock requests wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// A process does a call that does not wait.
    Call(usize, Op),
    /// A thread of a process makes a lock call that may wait; the process continues.
    Ask(usize, Op),
    /// The oldest waiting request of a process is interrupted, if there is one.
    Interrupt(usize),
}

/// Returns a script as Rust source, one step a line.
pub fn listing_of_turns(script: &[Turn]) -> String {
    let line = |turn: &Turn| match turn {
        Turn::Call(p, op) => format!("    Turn::Call({p}, {}),\n", source(op)),
        Turn::Ask(p, op) => format!("    Turn::Ask({p}, {}),\n", source(op)),
        Turn::Interrupt(p) => format!("    Turn::Interrupt({p}),\n"),
    };
    format!("[\n{}]", script.iter().map(line).collect::<String>())
}
