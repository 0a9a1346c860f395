//! `hearth heat`: which files and ranges of a mounted volume are hot. Questions to `.hearth/ask`,
//! control files in `.hearth/heat`, and the switch `.hearth/sys/fs/hot-track`.

mod args;
mod histogram;
mod info;
mod map;
pub mod palette;
mod picture;
pub mod place;
pub mod row;
mod top;
mod transfer;
pub mod units;

pub use args::HeatArgs;
pub use units::bytes;

use crate::control_file;
use crate::failure::Failure;
use crate::which::mount_of;
use crate::wrong_place::unreached;
use args::HeatVerb;
use std::path::Path;

/// Does what was asked for.
pub fn run(args: &HeatArgs) -> Result<(), Failure> {
    match &args.verb {
        HeatVerb::On { mount } => switch(mount.as_deref(), "1"),
        HeatVerb::Off { mount } => switch(mount.as_deref(), "0"),
        HeatVerb::Top(args) => top::run(args),
        HeatVerb::Info { path, json } => info::run(path, *json),
        HeatVerb::Histogram { mount, json } => histogram::run(mount.as_deref(), *json),
        HeatVerb::Report {
            mount,
            what_if,
            json,
        } => histogram::report(mount.as_deref(), what_if, *json),
        HeatVerb::Map(args) => map::run(args),
        HeatVerb::Export { mount } => transfer::export(mount.as_deref()),
        HeatVerb::Import { mount, file } => transfer::import(mount, file),
    }
}

fn switch(mount: Option<&Path>, to: &str) -> Result<(), Failure> {
    let top = mount_of(mount)?;
    let (name, denied) = (
        "sys/fs/hot-track",
        "only the owner of the mount and root may switch tracking; ask them",
    );
    control_file::write(&top, name, to).map_err(|error| unreached(&top, name, &error, denied))
}
