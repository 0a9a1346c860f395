//! Locks that end with a close which is under way.
//!
//! A flock, and a lock of an open file description, ends with the description. RELEASE says so, and
//! no program waits for that: whoever asks right behind the close, and does not want to wait, would
//! be refused because of somebody who is gone. But each close waits for its FLUSH, which comes
//! before. So a handle with such locks is noted at its FLUSH until its RELEASE, and for [`LONGEST`]
//! at most: the description may have another descriptor, and keep its locks. A request that is
//! refused meanwhile is made again.

use crate::dispatch::kernel_cache::by_inode::ByInode;
use hearth_sync::lock_class;
use std::time::{Duration, Instant};

lock_class!(ClosingLocksLock = "fuse.closing-locks", 878);

/// How long a RELEASE may take after its FLUSH, on a busy machine.
pub(crate) const LONGEST: Duration = Duration::from_millis(100);
/// The pause until a refused request is made again.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// The handles with such locks, by inode, and when a close of each began.
#[derive(Default)]
pub(crate) struct ClosingLocks(ByInode<ClosingLocksLock, Vec<(u64, Instant)>>);

impl ClosingLocks {
    /// A descriptor of `handle`, through which `ino` has locks, is being closed.
    pub fn closes(&self, ino: u64, handle: u64, now: Instant) {
        self.0.with(ino, |inodes| {
            let handles = inodes.entry(ino).or_default();
            // Those that were not released have another descriptor.
            handles.retain(|&(one, since)| one != handle && now - since < LONGEST);
            handles.push((handle, now));
        });
    }

    /// The locks of `handle` have ended.
    pub fn ended(&self, ino: u64, handle: u64) {
        if self.0.may_know(ino) {
            self.0.with(ino, |inodes| {
                let Some(handles) = inodes.get_mut(&ino) else {
                    return;
                };
                handles.retain(|&(one, _)| one != handle);
                if handles.is_empty() {
                    inodes.remove(&ino);
                }
            });
        }
    }

    /// Whether locks of `ino` may be about to end. Asked before a request: what has ended by then
    /// does not refuse it.
    pub fn may_end(&self, ino: u64, now: impl FnOnce() -> Instant) -> bool {
        self.0.may_know(ino)
            && self.0.with(ino, |inodes| {
                let now = now();
                let handles = inodes.get(&ino).into_iter().flatten();
                handles.into_iter().any(|&(_, since)| now - since < LONGEST)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_may_end_from_the_flush_to_the_release_and_not_for_long() {
        let (closing, begin) = (ClosingLocks::default(), Instant::now());
        let may_end = |ino, after| closing.may_end(ino, || begin + after);
        let soon = LONGEST / 2;
        assert!(!may_end(7, soon));
        closing.closes(7, 1, begin);
        closing.closes(7, 2, begin);
        assert!(may_end(7, soon) && !may_end(8, soon));
        closing.ended(7, 1);
        assert!(may_end(7, soon), "another one is being closed");
        closing.ended(7, 2);
        assert!(!may_end(7, soon) && !closing.0.may_know(7));
        closing.closes(7, 3, begin);
        assert!(!may_end(7, LONGEST), "it has another descriptor");
        closing.closes(7, 4, begin + LONGEST);
        closing.ended(7, 4);
        assert!(!closing.0.may_know(7), "it is not noted for good");
    }
}
