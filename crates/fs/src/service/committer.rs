//! The thread that commits what nobody asked to sync. See "A commit" in
//! `docs/design/log.md`.

use crate::errno::{Errno, Result};
use crate::superblock::{Handle, Superblock};
use hearth_sched::TaskError;
use hearth_sync::primitive::{Arc, thread};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Time between two attempts while there is no room.
const RETRY: Duration = Duration::from_millis(100);
/// Least time between two messages about the same trouble.
const QUIET: Duration = Duration::from_secs(60);

/// Starts the committer. It ends with the volume, which it holds only while it commits.
pub(crate) fn start(sb: &Handle<Superblock>, interval: Duration) -> Result<()> {
    let Some(log) = sb.log() else { return Ok(()) };
    let (volume, signal) = (sb.downgrade(), Arc::clone(&log.signal));
    let run = move || {
        let (mut wait, mut told) = (interval, None);
        while signal.wait(wait)
            && let Some(sb) = volume.upgrade()
        {
            wait = match commit(&sb, &mut told) {
                true => interval,
                false => RETRY,
            };
            while sb.objects.backend.tidy() && !signal.is_wanted() {}
        }
    };
    let thread = thread::Builder::new().name("hearth-commit".to_owned());
    drop(thread.spawn(run)?);
    Ok(())
}

/// Commits everything, also what was changed before the volume became read-only; false if that is
/// to be tried again soon.
fn commit(sb: &Superblock, told: &mut Option<Instant>) -> bool {
    if sb.cache.latched().is_some() {
        return true;
    }
    // A panic of the backend does not end this thread.
    let synced = catch_unwind(AssertUnwindSafe(|| sb.sync_unasked())).unwrap_or_else(|payload| {
        let panic = TaskError::Panicked(payload);
        sb.record_panic(panic.message().unwrap_or("no message"));
        Err(Errno::EIO)
    });
    let Err(errno) = synced else {
        *told = None;
        return true;
    };
    if told.is_none_or(|at| at.elapsed() > QUIET) {
        *told = Some(Instant::now());
        // Standard error may be closed.
        let _ = writeln!(
            std::io::stderr(),
            "hearth: changes cannot be made durable now: {errno}"
        );
    }
    false
}
