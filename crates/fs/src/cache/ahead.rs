//! Inodes that come along with one that was missing.

use crate::backend::{Allocation, Inode as Kept};
use crate::data::Data;
use crate::superblock::{Superblock, resident_bytes};
use hearth_sync::epoch::pin;

impl Superblock {
    /// Fetches inode `ino` and those around it, if fetches before were close to it. Whatever fails
    /// is left to the fetch of a single one.
    ///
    /// The backend is called without a lock. What it returns of an inode counts if that inode was
    /// neither in memory nor a ghost at any moment since before the call.
    pub(super) fn fetch_around(&self, ino: u64) {
        let range = self.cache.inode_ahead.around(ino);
        if range.end - range.start == 1 || self.over_budget() > 0 {
            return;
        }
        let may_come = |ino: u64| {
            // In this order: see `CacheState::left`.
            let left = self.cache.left(ino);
            (!self.cache.ghosts.contains(ino)).then_some(left)
        };
        let before: Vec<Option<u64>> = range.clone().map(may_come).collect();
        let Ok(loaded) = self.objects.backend.load_inodes(range.clone()) else {
            return;
        };
        for (kept, pages) in loaded {
            let at = kept.ino.checked_sub(range.start);
            let left = at.and_then(|at| before.get(at as usize).copied().flatten());
            if let Some(left) = left
                && kept.attrs.nlink > 0
            {
                self.bring(&kept, pages, left);
            }
        }
    }

    /// Puts an inode that the backend has returned into memory, unless it was there since its count
    /// of those that left was `left`.
    fn bring(&self, kept: &Kept, pages: Allocation, left: u64) {
        let ino = kept.ino;
        if self.objects.inodes.get(ino, &pin()).is_some() {
            return;
        }
        let (contents, came) = Data::allocated(pages);
        let restored = {
            let _one = self.inode_io_lock(ino).lock_guard();
            let is_there = self.objects.inodes.get(ino, &pin()).is_some();
            if is_there || self.cache.left(ino) != left || self.cache.ghosts.contains(ino) {
                return;
            }
            self.restore(kept, contents, |_| {}, &pin())
        };
        if let Ok((inode, new)) = restored {
            if let Some(bytes) = new {
                self.cache.mem_usage.add(bytes + resident_bytes(came));
            }
            self.release(inode, &pin());
        }
    }

    /// Fetches inodes of a listing, as long as there is room for them, by rising number: those that
    /// were made together come together.
    pub(super) fn fetch_listed(&self, numbers: &[u64]) {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        for ino in numbers {
            if self.over_budget() > 0 {
                break;
            }
            self.fetch_target(ino);
        }
    }

    /// Fetches the inode of an entry that was fetched just now. One that has gone meanwhile is
    /// found out by who looks for it.
    pub(super) fn fetch_target(&self, ino: u64) {
        let is_there = self.objects.inodes.get(ino, &pin()).is_some();
        if !is_there {
            let _ = self.fetch_inode(ino);
        }
    }
}
