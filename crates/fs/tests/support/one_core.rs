//! A test that waits for a number of an inode to be used again, or counts what one core does.

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

/// Keeps this thread, and those that it starts from now on, on one core. Each core has free numbers
/// of its own, so that what is freed there is used again there, and a sample of heat of its own.
pub fn stay_on_one_core() {
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    sched_setaffinity(None, &one).expect("a thread may choose among its cores");
}
