//! Two things at once.

use crate::failure::{caught, joined};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Does `work`, and `other` while it is running, which asks whether `work` still goes on.
pub fn while_running<A: Send, B: Send>(
    work: impl FnOnce() -> Result<A, String> + Send,
    other: impl FnOnce(&dyn Fn() -> bool) -> Result<B, String> + Send,
) -> Result<(A, B), String> {
    // Relaxed: a flag by itself.
    let goes_on = &AtomicBool::new(true);
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let done = caught(work);
            goes_on.store(false, Relaxed);
            done
        });
        let other = scope.spawn(move || other(&|| goes_on.load(Relaxed)));
        let done = joined(worker.join());
        let other = joined(other.join());
        Ok((done?, other?))
    })
}
