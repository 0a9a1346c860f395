//! The gate of reads, which lets a broken engine be opened anew among steady readers.

use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{thread, thread_local};
use std::cell::Cell;
use std::time::Duration;

/// How often a read looks whether the gate is open again.
const PAUSE: Duration = Duration::from_millis(1);

thread_local! {
    /// Scans whose visitor this thread is in.
    static SCANS: Cell<u32> = const { Cell::new(0) };
}

/// Reads wait before it while the engine is opened anew. A visitor of a scan does not: its scan
/// holds the engine until it returns.
#[derive(Default)]
pub(super) struct Gate {
    /// Relaxed: it orders nothing, and a read that misses it holds the engine a little longer.
    is_shut: AtomicBool,
}

/// A shut gate, which opens when this is dropped.
pub(super) struct Shut<'a>(&'a Gate);

/// A scan that is under way on this thread.
pub(super) struct InScan(());

impl Gate {
    /// Waits until the gate is open. Called without a lock of the volume.
    pub(super) fn pass(&self) {
        while self.is_shut.load(Ordering::Relaxed) && SCANS.with(Cell::get) == 0 {
            thread::sleep(PAUSE);
        }
    }

    /// Keeps new reads out. Called by one thread at a time, and not for long: a visitor may wait
    /// for a read of another thread.
    pub(super) fn shut(&self) -> Shut<'_> {
        self.is_shut.store(true, Ordering::Relaxed);
        Shut(self)
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.is_shut.store(false, Ordering::Relaxed);
    }
}

impl InScan {
    pub(super) fn begin() -> InScan {
        SCANS.with(|scans| scans.set(scans.get() + 1));
        InScan(())
    }
}

impl Drop for InScan {
    fn drop(&mut self) {
        SCANS.with(|scans| scans.set(scans.get() - 1));
    }
}
