//! `hearth stats`: the control file `.hearth/stats` for people and for programs.

mod sample;
mod table;

use crate::args::StatsArgs;
use crate::control_file;
use crate::failure::Failure;
use crate::output;
use crate::which::typed_or_only;
use crate::wrong_place::{OWNERS, unreached};
use hearth_sync::primitive::thread;
pub use sample::{Samples, number as json_number, sample};
use std::path::Path;
use std::time::Duration;
pub use table::{Row, calls, operations};

/// How long `--watch` gathers before it prints.
const INTERVAL: Duration = Duration::from_secs(1);

/// Prints the statistics of a mounted volume.
pub fn run(args: &StatsArgs) -> Result<(), Failure> {
    let mount = &typed_or_only(args.mount.as_deref())?;
    let mut before = read(mount)?;
    if !args.watch {
        return output::print(&shown(&before, args.json));
    }
    loop {
        thread::sleep(INTERVAL);
        let now = read(mount)?;
        output::print(&shown(&now.since(&before), args.json))?;
        before = now;
    }
}

fn shown(samples: &Samples, json: bool) -> String {
    if json {
        format!("{}\n", samples.json())
    } else {
        table::text(samples, output::Paint::for_stdout())
    }
}

/// The numbers of the volume mounted at `mount`.
///
/// # Errors
/// It is no mount, or its control files cannot be read.
pub fn read(mount: &Path) -> Result<Samples, Failure> {
    match control_file::read(mount, "stats") {
        Ok(text) if text.is_empty() => Err(Failure::empty(mount)),
        Ok(text) => Ok(Samples::parse(&text)),
        Err(error) => Err(unreached(mount, "stats", &error, OWNERS)),
    }
}
