//! On which CPUs, and by which scheduling policy, the threads run that carry requests.

pub(crate) mod affinity_monitor;
pub(crate) mod cpu;
pub(crate) mod idle_policy;
pub(crate) mod reader_admission;
