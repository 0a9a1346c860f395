//! `hearth sync`: everything that was written to a mounted volume is durable afterwards.

use crate::args::SyncArgs;
use crate::ask;
use crate::failure::{Failure, reason};
use crate::which::typed_or_only;
use std::fs::File;

/// Makes a mounted volume durable.
pub fn run(args: &SyncArgs) -> Result<(), Failure> {
    let mount = &typed_or_only(args.mount.as_deref())?;
    let failed = |error: &std::io::Error| Failure::at(mount, reason(error));
    // What the kernel has collected goes to the daemon first.
    let root = File::open(mount).map_err(|error| failed(&error))?;
    rustix::fs::syncfs(&root).map_err(|error| failed(&error.into()))?;
    ask::ask(mount, "sync").map(drop)
}
