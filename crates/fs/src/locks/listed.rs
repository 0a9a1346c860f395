//! The locks of one file as a list: who holds what, and who waits for whom.

use super::FileLocks;
use super::request::LockRequest;

/// Many readers may hold a range that many writers wait for.
const MOST_CONFLICTS: usize = 64;

/// A lock that is held on a file, or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLock {
    /// The lock.
    pub lock: LockRequest,
    /// Of a request that waits: the held locks that it waits for, oldest first, at most 64 of them.
    /// `None` if the lock is held.
    pub waits_for: Option<Vec<LockRequest>>,
}

impl FileLocks {
    /// At most `most` locks and waiting requests, those that wait first, as they are at one moment;
    /// and how many there are.
    pub fn list(&self, most: usize) -> (Vec<ListedLock>, usize) {
        let state = self.shared.state.lock();
        let waiting = state.queue.iter().map(|waiting| ListedLock {
            lock: waiting.request,
            waits_for: Some({
                let conflicts = state.held.conflicts(&waiting.request);
                conflicts.take(MOST_CONFLICTS).collect()
            }),
        });
        let held = state.held.all().map(|lock| ListedLock {
            lock,
            waits_for: None,
        });
        let count = state.queue.len() + state.held.all().count();
        (waiting.chain(held).take(most).collect(), count)
    }
}
