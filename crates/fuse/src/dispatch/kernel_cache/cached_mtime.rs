//! The mtimes that the kernel has cached although the files have others.
//!
//! With a writeback cache the kernel keeps the times of a regular file itself, and sends them
//! whenever it has moved one: with `rename`, `link`, `unlink` and extended attributes, for the time
//! of change. A write that it passes on (quotas, `O_APPEND` of append-only files, `direct_io`) does
//! not move its own mtime, so what it sends then is a time before the write, which is not to be
//! stored. It looks like the `utimensat` of a program that sets the mtime alone; but it is the very
//! time that the kernel was last told. With a handle it is never a program's, and may be one that
//! the kernel has made itself, of a cut or of a store through a mapping: the later one counts.

use hearth::Time;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;

lock_class!(CachedMtimesLock = "fuse.believed-times", 878);

/// The mtimes that the kernel has cached of files whose writes it has passed on, until it forgets
/// the inode.
#[derive(Default)]
pub(crate) struct CachedMtimes {
    times: Lock<CachedMtimesLock, HashMap<u64, Time>>,
    /// Size of `times`, so that requests need not take the lock to see that there are none.
    /// Relaxed: the kernel sends times after the reply to the write.
    count: AtomicUsize,
}

impl CachedMtimes {
    /// A first write to `ino` is passed on: until now it has the mtime that the kernel believes,
    /// unless there was another write before.
    pub fn wrote(&self, ino: u64, before: Time) {
        let mut times = self.times.lock();
        times.entry(ino).or_insert(before);
        self.count.store(times.len(), Ordering::Relaxed);
    }

    /// Whether writes to `ino` were passed on.
    pub fn knows(&self, ino: u64) -> bool {
        self.any() && self.times.lock().contains_key(&ino)
    }

    /// Whether that is so, and the kernel believes that it has this time.
    pub fn has(&self, ino: u64, time: Time) -> bool {
        self.any() && self.times.lock().get(&ino) == Some(&time)
    }

    /// The kernel knows that `ino` has this time.
    pub fn set(&self, ino: u64, time: Time) {
        if self.any()
            && let Some(believed) = self.times.lock().get_mut(&ino)
        {
            *believed = time;
        }
    }

    /// The kernel has dropped the inode.
    pub fn forgotten(&self, ino: u64) {
        if self.any() {
            let mut times = self.times.lock();
            times.remove(&ino);
            self.count.store(times.len(), Ordering::Relaxed);
        }
    }

    fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_before_the_first_write_is_believed_until_something_else_is_said() {
        let believed = CachedMtimes::default();
        let [one, two, three] = [1, 2, 3].map(|sec| Time { sec, nsec: 5 });
        believed.set(7, one);
        assert!(
            !believed.has(7, one) && !believed.knows(7),
            "no write was passed on"
        );
        believed.wrote(7, one);
        believed.wrote(7, two);
        assert!(believed.has(7, one) && !believed.has(7, two));
        believed.set(7, three);
        assert!(believed.has(7, three) && !believed.has(7, one));
        assert!(!believed.has(8, three));
        believed.forgotten(7);
        assert!(!believed.has(7, three));
    }
}
