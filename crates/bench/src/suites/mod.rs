//! Suites that are neither of the seeds, nor of heat, nor of the scheduler.

pub mod basic;
pub mod freeing;
pub mod garbage;
pub mod instructions;
pub mod latency;
pub mod locks;
pub mod memory;
pub mod quota;
pub mod requests;
