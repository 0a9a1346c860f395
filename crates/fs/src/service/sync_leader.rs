//! The thread that leads commits for those who wait for them without a thread of their own. See "A
//! commit" in `docs/design/log.md`.

use crate::errno::Result;
use crate::superblock::{Handle, Superblock};
use hearth_sched::TaskError;
use hearth_sync::primitive::{Arc, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Starts the thread. It ends with the volume, which it holds only while it leads.
pub(crate) fn start(sb: &Handle<Superblock>) -> Result<()> {
    let (volume, signal) = (sb.downgrade(), Arc::clone(&sb.cache.leader));
    let run = move || {
        while signal.wait()
            && let Some(sb) = volume.upgrade()
        {
            lead(&sb);
        }
    };
    let thread = thread::Builder::new().name("hearth-sync".to_owned());
    drop(thread.spawn(run)?);
    sb.cache.leader.begin();
    Ok(())
}

/// A panic of the backend ends a commit, and not this thread: those who wait are told of the error
/// that it has left.
fn lead(sb: &Superblock) {
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| sb.lead_for_waiting())) {
        let panic = TaskError::Panicked(payload);
        sb.record_panic(panic.message().unwrap_or("no message"));
    }
}
