//! Counts the live pages and nodes that a test made.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use hearth_sync::epoch::pin;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use hearth_sync::primitive::thread;

thread_local! {
    /// The counter for pages and nodes made on this thread.
    static CURRENT: RefCell<Option<Arc<AtomicU64>>> = const { RefCell::new(None) };
}

/// Part of each page or node: counts as one until it is dropped.
pub(super) struct LiveToken(Option<Arc<AtomicU64>>);

impl LiveToken {
    pub(super) fn new() -> LiveToken {
        let count = CURRENT.with_borrow(|current| current.clone());
        // Relaxed: a count.
        if let Some(count) = &count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        LiveToken(count)
    }
}

impl Drop for LiveToken {
    fn drop(&mut self) {
        // Relaxed: a count.
        if let Some(count) = &self.0 {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The live pages and nodes that the current thread has made since [`begin`].
pub(super) struct LiveCount(Arc<AtomicU64>);

pub(super) fn begin() -> LiveCount {
    let count = Arc::new(AtomicU64::new(0));
    CURRENT.set(Some(count.clone()));
    LiveCount(count)
}

impl LiveCount {
    pub(super) fn alive(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until reclamation has brought the count down to `want`, and no further. Other tests
    /// delay it: a thread that lost its core while pinned stops reclamation for a time slice.
    pub(super) fn settle(&self, want: u64) {
        let limit = Instant::now() + Duration::from_secs(60);
        while self.alive() > want && Instant::now() < limit {
            pin().flush();
            thread::yield_now();
        }
        (0..100).for_each(|_| pin().flush());
        assert_eq!(self.alive(), want);
    }
}
