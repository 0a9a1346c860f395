//! `hearth metrics`: what all Hearth mounts of this machine do, as Prometheus reads it.
//!
//! A mount says most of it itself, in `.hearth/stats`; here it gets the label `mount`, and tenants
//! and quotas are added from what the mount says of them in JSON. Who has a name of his own among
//! thousands of tenants is decided here, because it depends on who was named before.

mod args;
mod collector;
mod exposition;
mod heat;
mod http;
mod listen;
mod locks;
mod names;
mod probe;
mod quotas;
mod ranking;
mod room;
mod server;
mod tenants;
mod worker;

pub use args::{MetricsArgs, WorkArgs};
pub use worker::work;

use crate::failure::Failure;
use crate::mounts::resolved_around;
use crate::output;
use worker::Worker;

/// Prints the metrics once, or serves them until the program is asked to end.
pub fn run(args: &MetricsArgs) -> Result<(), Failure> {
    let mut work = args.work.clone();
    for at in &mut work.mounts {
        *at = resolved_around(at);
    }
    let all = std::mem::take(&mut work.mounts);
    for at in all {
        if !work.mounts.contains(&at) {
            work.mounts.push(at);
        }
    }
    if let Some(place) = &args.listen {
        // Volumes may be mounted later.
        return server::run(place, Worker::new(work));
    }
    work.once = true;
    output::print(&Worker::new(work).collect()?)
}
