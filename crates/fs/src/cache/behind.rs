//! What was written of large files leaves memory where the page cache of a kernel has it too.

use crate::inode::Inode;
use crate::superblock::{PAGE_BYTES, Superblock};
use hearth_sync::epoch::{self, pin};
use std::ops::Range;

/// Pages that are dropped at a time: writers of the file wait meanwhile.
const AT_ONCE: u64 = 1024;

impl Superblock {
    /// Commits, and drops `ranges` of files that were written back before, inode and pages. Without
    /// the commit the backend could not give them back.
    pub(super) fn drop_cached(&self, ranges: Vec<(u64, Range<u64>)>) {
        let Some(log) = self.log().filter(|_| !ranges.is_empty()) else {
            return;
        };
        // An error is told by a sync.
        if self.commit_through(log.epoch()).is_err() {
            return;
        }
        for (ino, pages) in ranges {
            let Some(inode) = self.objects.inodes.hold(ino, &pin()) else {
                continue;
            };
            let _ = self.with_held(inode, |inode| {
                for start in pages.clone().step_by(AT_ONCE as usize) {
                    let part = start..pages.end.min(start + AT_ONCE);
                    self.drop_pages(inode, part);
                    epoch::throttle_background();
                }
                Ok(())
            });
        }
    }

    /// Drops those of `pages` that the backend has: see `evict_file`.
    fn drop_pages(&self, inode: &Inode, pages: Range<u64>) {
        let Some(data) = inode.data() else { return };
        let g = pin();
        let _locks = (inode.meta.change.lock(), inode.meta.growth.lock());
        let _closed = inode.gate.write(inode.percpu());
        let Some(has) = self.epochs_at_backend(inode) else {
            return;
        };
        let dropped = data.evict_range(pages, has, &g) as i64;
        self.cache.mem_usage.add(-dropped * PAGE_BYTES);
    }
}
