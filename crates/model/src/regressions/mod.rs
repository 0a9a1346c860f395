//! Regressions: scripts that once showed a difference between two systems, each named by the fact
//! that it checks. The kernel and the library both run them. Process 1 is root, process 2 user 1000
//! in group 2000.

mod data;
pub mod holes;
mod modes;
mod names;
mod opens;
mod processes;
mod script;
mod statx;
mod steps;
mod waits;
mod walks;
mod xattrs;

pub use script::Script;
pub use waits::scripts as waiting;

/// All of them.
pub fn all() -> Vec<Script> {
    [
        walks::scripts(),
        opens::scripts(),
        data::scripts(),
        holes::scripts(),
        modes::scripts(),
        statx::scripts(),
        names::scripts(),
        xattrs::scripts(),
        processes::scripts(),
    ]
    .concat()
}
