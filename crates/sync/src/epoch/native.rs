//! crossbeam-epoch's default collector.

/// A pinned participant.
pub(super) struct Guard(crossbeam_epoch::Guard);

#[inline]
pub(super) fn pin() -> Guard {
    Guard(crossbeam_epoch::pin())
}

/// Whether this thread has a guard.
pub(super) fn is_pinned() -> bool {
    crossbeam_epoch::is_pinned()
}

impl Guard {
    pub(super) fn flush(&self) {
        self.0.flush();
    }

    pub(super) fn repin(&mut self) {
        self.0.repin();
    }

    /// # Safety
    ///
    /// As [`super::Guard::defer`].
    pub(super) unsafe fn defer(&self, work: impl FnOnce() + 'static) {
        // SAFETY: the caller promises that `work` may run later on any thread.
        unsafe { self.0.defer_unchecked(work) };
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pinned")
    }
}
