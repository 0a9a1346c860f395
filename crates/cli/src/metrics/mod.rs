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

use crate::failure::Failure;
use crate::output;
use collector::Collector;

/// Prints the metrics once, or serves them until the program is asked to end.
pub fn run(args: &MetricsArgs) -> Result<(), Failure> {
    let mut collector = Collector::new(args.tenants, args.timeout);
    match &args.listen {
        None => output::print(&collector.collect()?),
        Some(place) => server::run(place, collector),
    }
}
