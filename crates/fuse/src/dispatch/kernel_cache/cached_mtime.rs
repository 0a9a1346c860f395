//! The mtimes that the kernel has cached although the files have others.
//!
//! With a writeback cache the kernel keeps the times of a regular file itself, and sends them
//! whenever it has moved one: with `rename`, `link`, `unlink` and extended attributes, for the time
//! of change. A write that it passes on (quotas, `O_APPEND` of append-only files, `direct_io`) does
//! not move its own mtime, so what it sends then is a time before the write, which is not to be
//! stored. It looks like the `utimensat` of a program that sets the mtime alone; but it is the very
//! time that the kernel was last told. With a handle it is never a program's, and may be one that
//! the kernel has made itself, of a cut or of a store through a mapping: the later one counts.

use super::by_inode::ByInode;
use hearth::Time;
use hearth_sync::epoch;
use hearth_sync::lock_class;

lock_class!(CachedMtimesLock = "fuse.believed-times", 878);

/// Times closer together than this are the same to programs: a tick of the kernel's own clock.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// The mtimes that the kernel has cached of files whose writes it has passed on, until it forgets
/// the inode. Times that the kernel sends beside a first write, as `sync` makes it, have no order
/// with that write.
#[derive(Default)]
pub(crate) struct CachedMtimes(ByInode<CachedMtimesLock, Time>);

impl CachedMtimes {
    /// A first write to `ino` is passed on: until now it has the mtime that the kernel believes,
    /// unless there was another write before.
    pub fn wrote(&self, ino: u64, before: Time) {
        self.0.with(ino, |times| {
            times.entry(ino).or_insert(before);
        });
    }

    /// Whether writes to `ino` were passed on.
    pub fn knows(&self, ino: u64) -> bool {
        self.0.may_know(ino) && self.0.with(ino, |times| times.contains_key(&ino))
    }

    /// The mtime that the kernel believes of such a file.
    pub fn get(&self, ino: u64) -> Option<Time> {
        match self.0.may_know(ino) {
            true => self.0.with(ino, |times| times.get(&ino).copied()),
            false => None,
        }
    }

    /// Whether that is so, and the kernel believes that it has this time.
    pub fn has(&self, ino: u64, time: Time) -> bool {
        self.0.may_know(ino) && self.0.with(ino, |times| times.get(&ino) == Some(&time))
    }

    /// The kernel knows that `ino` has this time.
    pub fn set(&self, ino: u64, time: Time) {
        if self.0.may_know(ino) {
            self.0.with(ino, |times| {
                times.entry(ino).and_modify(|known| *known = time);
            });
        }
    }

    /// A FORGET of the inode was counted. The kernel may have found it again before it said this of
    /// an earlier time, and may have written since; so `is_known`, whether it has the inode, is
    /// asked under the lock.
    pub fn forgotten(&self, ino: u64, is_known: impl FnOnce() -> bool) {
        if self.0.may_know(ino) {
            // Garbage of the core is not collected under the lock.
            let _pinned = epoch::pin();
            self.0.with(ino, |times| {
                if times.contains_key(&ino) && !is_known() {
                    times.remove(&ino);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_before_the_first_write_is_believed_until_something_else_is_said() {
        let cached_mtimes = CachedMtimes::default();
        let [one, two, three] = [1, 2, 3].map(|sec| Time { sec, nsec: 5 });
        cached_mtimes.set(7, one);
        assert!(
            !cached_mtimes.has(7, one) && !cached_mtimes.knows(7),
            "no write was passed on"
        );
        cached_mtimes.wrote(7, one);
        cached_mtimes.wrote(7, two);
        assert!(cached_mtimes.has(7, one) && !cached_mtimes.has(7, two));
        cached_mtimes.set(7, three);
        assert!(cached_mtimes.has(7, three) && !cached_mtimes.has(7, one));
        assert!(!cached_mtimes.has(8, three));
        cached_mtimes.forgotten(7, || true);
        assert!(cached_mtimes.has(7, three), "it was found again");
        cached_mtimes.forgotten(7, || false);
        assert!(!cached_mtimes.has(7, three));
    }
}
