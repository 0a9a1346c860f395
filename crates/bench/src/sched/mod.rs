//! `hearth-bench sched`: the scheduler by itself, and what it does for tenants of one mount.

pub mod background;
pub mod chat;
mod executors;
mod gauge;
pub mod neighbour;
pub mod sdet;
pub mod yields;
