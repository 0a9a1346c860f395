//! `hearth metrics`: what all Hearth mounts of this machine do, as Prometheus reads it.
//!
//! A mount says most of it itself, in `.hearth/stats`; here it gets the label `mount`, and tenants
//! and quotas are added from what the mount says of them in JSON. Who has a name of his own among
//! thousands of tenants is decided here, because it depends on who was named before.

mod args;
mod collector;
mod http;
mod listen;
mod locks;
mod names;
mod page;
mod probe;
mod question;
mod quotas;
mod ranking;
mod room;
mod server;
mod tenants;

pub use args::MetricsArgs;

use crate::ask::NO_MOUNT;
use crate::failure::Failure;
use crate::mounts::{self, resolved_around};
use crate::output;
use collector::Collector;
use std::path::{Path, PathBuf};

/// Prints the metrics once, or serves them until the program is asked to end.
pub fn run(args: &MetricsArgs) -> Result<(), Failure> {
    let only: Vec<PathBuf> = args.mounts.iter().map(|at| resolved_around(at)).collect();
    let mut collector = Collector::new(only.clone(), args.tenants, args.timeout);
    if let Some(place) = &args.listen {
        // Volumes may be mounted later.
        return server::run(place, collector);
    }
    if let Some(none) = only.iter().find(|at| !is_mount(at)) {
        return Err(Failure::at(none, NO_MOUNT));
    }
    output::print(&collector.collect()?)
}

fn is_mount(at: &Path) -> bool {
    mounts::ours().is_ok_and(|ours| ours.iter().any(|mount| mount == at))
}
