//! Benchmarks of Hearth, and the test whether commuting operations are conflict-free.
//!
//! Everything is a verb of the program `hearth-bench`; see `docs/benchmarks.md`.

pub mod conflicts;
pub mod pinned;
pub mod row;
