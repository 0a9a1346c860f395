//! The thread that writes large files back while they are being written, so that disk and
//! processors work at the same time. See "Write-back" in `docs/design/log.md`.

use crate::errno::Result;
use crate::superblock::{Handle, Superblock};
use hearth_sched::TaskError;
use hearth_sync::primitive::{Arc, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Starts the thread. It ends with the volume, which it holds only while it writes.
pub(crate) fn start(sb: &Handle<Superblock>) -> Result<()> {
    let Some(log) = sb.log() else { return Ok(()) };
    let (volume, signal) = (sb.downgrade(), Arc::clone(&log.signal));
    let run = move || {
        while signal.wait_early()
            && let Some(sb) = volume.upgrade()
        {
            // A panic of the backend does not end this thread.
            let written = catch_unwind(AssertUnwindSafe(|| sb.write_early()));
            if let Err(payload) = written {
                let panic = TaskError::Panicked(payload);
                sb.record_panic(panic.message().unwrap_or("no message"));
            }
        }
    };
    let thread = thread::Builder::new().name("hearth-early".to_owned());
    drop(thread.spawn(run)?);
    Ok(())
}
