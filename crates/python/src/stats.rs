//! Statistics as a dictionary.

use hearth::{Call, Event, Op, Stats, VolumeGauges};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// See `Volume.stats`.
pub fn dict<'py>(
    py: Python<'py>,
    stats: &Stats,
    gauges: &VolumeGauges,
) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("calls", calls(py, stats)?)?;
    all.set_item("operations", operations(py, stats)?)?;
    let events = PyDict::new(py);
    for event in Event::ALL {
        let count = stats.events(*event);
        if count > 0 {
            events.set_item(event.name(), count)?;
        }
    }
    all.set_item("events", events)?;
    let now = PyDict::new(py);
    for (name, value) in [
        ("inodes", gauges.inodes),
        ("page_bytes", gauges.page_bytes),
        ("inodes_in_memory", gauges.inodes_in_memory),
        ("inode_bytes", gauges.inode_bytes),
        ("inode_table_bytes", gauges.inode_table_bytes),
        ("dentries", gauges.dentries),
        ("dentry_bytes", gauges.dentry_bytes),
        ("budgeted_bytes", gauges.budgeted_bytes),
        ("lock_waiters", gauges.lock_waiters),
    ] {
        now.set_item(name, value)?;
    }
    all.set_item("gauges", now)?;
    Ok(all)
}

fn calls<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let calls = PyDict::new(py);
    for call in Call::ALL {
        let sum = stats.call(*call);
        if sum.count > 0 {
            let row = PyDict::new(py);
            row.set_item("count", sum.count)?;
            row.set_item("errors", sum.errors)?;
            calls.set_item(call.name(), row)?;
        }
    }
    Ok(calls)
}

fn operations<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let operations = PyDict::new(py);
    for op in Op::ALL {
        let sum = stats.op(*op);
        if sum.count > 0 {
            let row = PyDict::new(py);
            row.set_item("count", sum.count)?;
            row.set_item("errors", sum.errors)?;
            row.set_item("ns", sum.ns)?;
            operations.set_item(op.name(), row)?;
        }
    }
    Ok(operations)
}
