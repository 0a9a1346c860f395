//! What a volume will not keep, once its backend has failed for good.

use crate::data::PAGE;
use crate::errno::Errno;
use crate::inode::Inode;
use crate::log::ChangeLog;
use crate::quota::QuotaEventFile;
use crate::quotactl::Quota;
use crate::superblock::Superblock;
use hearth_sched::block_in_place;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::Ordering::Relaxed;

/// Inodes that are looked at under one guard.
const LOOK: usize = 4096;

impl Superblock {
    /// Reports of each file what was written and will never be at the backend, once. What a kernel
    /// in front writes back later is refused and reported then.
    pub(super) fn tell_unsaved(&self) {
        let Some(errno) = self.cache.take_untold_failure() else {
            return;
        };
        if let Some(log) = self.log() {
            block_in_place(|| self.tell_unsaved_of(log, errno));
        }
    }

    fn tell_unsaved_of(&self, log: &ChangeLog, errno: Errno) {
        let mut from = Some(0);
        while let Some(start) = from {
            let mut files = Vec::new();
            from = self.find_unsaved(log, start, &mut files);
            for ino in files {
                let Some(inode) = self.objects.inodes.hold(ino, &pin()) else {
                    continue;
                };
                let file = QuotaEventFile {
                    ino,
                    generation: Some(inode.generation()),
                    path: None,
                };
                let (owner, bytes) = (inode.meta.owner().uid, unsaved_bytes(log, &inode));
                if bytes != Some(0) {
                    Quota::of(self).report_lost(Some(owner), file, bytes, errno);
                }
                self.release(inode, &pin());
            }
        }
    }

    /// Adds the files from number `from` on that have contents which the backend has not got.
    /// Returns where to go on.
    fn find_unsaved(&self, log: &ChangeLog, from: u64, files: &mut Vec<u64>) -> Option<u64> {
        let (mut looked, mut next) = (0, None);
        self.objects.inodes.scan(from, &pin(), |inode| {
            if looked == LOOK {
                next = Some(inode.number());
                return false;
            }
            looked += 1;
            let is_unsaved = inode.state.has_unrecorded() || is_pending(log, inode);
            // Nobody misses a file without a name after the next mount.
            if inode.data().is_some() && is_unsaved && !inode.meta.is_unlinked() {
                files.push(inode.number());
            }
            true
        });
        next
    }
}

/// Whether the backend has not got something that was recorded of the contents. Relaxed: nothing
/// that is recorded now will get there either.
fn is_pending(log: &ChangeLog, inode: &Inode) -> bool {
    log.is_pending(inode.contents.epoch.load(Relaxed))
}

/// Bytes of the file that the backend has not got, whole pages up to its size; `None` if some of
/// them ride in a record, and nobody has counted those.
fn unsaved_bytes(log: &ChangeLog, inode: &Inode) -> Option<u64> {
    let Some(data) = inode.data() else {
        return Some(0);
    };
    let size = inode.meta.size();
    if size > 0 && is_pending(log, inode) {
        return None;
    }
    let (mut pages, mut from) = (0, Some(0));
    while let Some(start) = from {
        let _closed = inode.gate.write(inode.percpu());
        let (found, next) = data.count_unclean(start..size.div_ceil(PAGE), &pin());
        (pages, from) = (pages + found, next);
    }
    Some((pages * PAGE).min(size))
}
