//! hearth-bench
