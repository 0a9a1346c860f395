//! `hearth sync`: everything that was written to a mounted volume is durable afterwards.

use crate::args::SyncArgs;
use crate::failure::Failure;
use crate::which::typed_or_only;
use crate::wrong_place::{self, OWNERS, unreached};
use crate::{ask, control_file};
use rustix::fs::{Mode, OFlags, fsync, open};
use std::io::{Error, ErrorKind};
use std::path::Path;

/// Makes a mounted volume durable.
pub fn run(args: &SyncArgs) -> Result<(), Failure> {
    let mount = &typed_or_only(args.mount.as_deref())?;
    // Before another filesystem is synced.
    let asked = control_file::open_to_ask(mount, "ask");
    if asked.as_ref().is_err_and(is_read_only) {
        return read_only(mount);
    }
    let control = asked.map_err(|error| unreached(mount, "ask", &error, OWNERS))?;
    // What the kernel has collected goes to the daemon first.
    rustix::fs::syncfs(&control).map_err(|error| {
        wrong_place::failure(mount, &error.into(), "the log of its daemon may say more")
    })?;
    ask::ask(mount, "sync").map(drop)
}

fn is_read_only(error: &Error) -> bool {
    error.kind() == ErrorKind::ReadOnlyFilesystem
}

/// On a mount with ro nothing can be written to `.hearth/ask`, and the kernel has nothing to hand
/// over. What was written before a remount may still be on its way to a store: an fsync needs no
/// right to write, and waits for it.
fn read_only(mount: &Path) -> Result<(), Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = open(mount, flags, Mode::empty()).and_then(fsync);
    synced.map_err(|error| {
        wrong_place::failure(mount, &error.into(), "the log of its daemon may say more")
    })
}
