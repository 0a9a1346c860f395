//! Blocks of files that are written and stay open.
//!
//! A kernel with a writeback cache takes the blocks of a file for stale when somebody closes it,
//! and not when it has written pages back: a file that stays open would have none until its
//! attributes time out. So it is told: with an fsync before the reply, and else a second after the
//! first pages that came, once for all that came meanwhile. That is done by a worker: an inode may
//! be on its way out of the kernel while its last pages are written back, and a notification would
//! wait for it, and it for the reply.

use super::by_inode::ByInode;
use crate::dispatch::Dispatcher;
use crate::wait::outcome::{BlockingClass, InlineReply, Offload};
use hearth::{Caller, KernelCache, VfsFile};
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Arc, thread};
use std::collections::HashMap;
use std::time::Duration;

lock_class!(ToldBlocksLock = "fuse.told-blocks", 878);

/// How long pages may come until the kernel is told of them, in looks and the time between two: a
/// session does not wait longer for its end.
const LOOKS: u32 = 40;
const BETWEEN: Duration = Duration::from_millis(25);

/// The blocks that the kernel knows of files whose pages it has written back since. It sends an
/// fsync or a flush after the replies to the writes, so a request that finds none has none to find.
#[derive(Default)]
pub(crate) struct ToldBlocks {
    told: ByInode<ToldBlocksLock, u64>,
    /// A worker will tell. Relaxed: it is cleared before the parts of the table are taken, each
    /// under its lock, and read after an entry was put into one under the same lock. So whoever
    /// puts in what was not taken sees it cleared.
    is_awaited: AtomicBool,
}

impl ToldBlocks {
    fn knows(&self, ino: u64) -> bool {
        self.told.may_know(ino) && self.told.with(ino, |told| told.contains_key(&ino))
    }

    /// Pages of `ino`, which has `blocks`, are written back. True if a worker is to wait for more.
    fn begins(&self, ino: u64, blocks: u64) -> bool {
        self.told.with(ino, |told| {
            told.entry(ino).or_insert(blocks);
        });
        !self.is_awaited.load(Ordering::Relaxed) && !self.is_awaited.swap(true, Ordering::Relaxed)
    }

    /// The kernel asks again by itself, or is told: what it knew.
    fn take(&self, ino: u64) -> Option<u64> {
        let told = self.told.may_know(ino);
        told.then(|| self.told.with(ino, |told| told.remove(&ino)))?
    }

    /// All of them, if there are any more or the time is over; the wait ends then.
    fn end(&self, is_over: bool) -> Option<HashMap<u64, u64>> {
        if !is_over && !self.told.is_empty() {
            return None;
        }
        self.is_awaited.store(false, Ordering::Relaxed);
        Some(self.told.drain())
    }
}

impl<V: KernelCache> Dispatcher<V> {
    /// The kernel writes pages of `ino` back.
    pub(crate) fn blocks_may_grow(&self, ino: u64) {
        if !self.settings.writeback || self.told_blocks.knows(ino) {
            return;
        }
        let Ok(attr) = self.vfs.getattr(&Caller::ROOT, ino) else {
            return;
        };
        if self.told_blocks.begins(ino, attr.blocks) {
            self.tell_later();
        }
    }

    /// The kernel takes the blocks for stale by itself.
    pub(crate) fn blocks_are_asked_again(&self, handle: u64) {
        if self.settings.writeback
            && let Some(ino) = self.handles.with(handle, |handle| handle.file.ino())
        {
            self.told_blocks.take(ino);
        }
    }

    /// The kernel has written back all that `ino`, which is open, had. The inode stays for as long
    /// as it is, so telling waits for nobody.
    pub(crate) fn tell_blocks(&self, ino: u64) {
        if let Some(told) = self.told_blocks.take(ino)
            && self
                .vfs
                .getattr(&Caller::ROOT, ino)
                .is_ok_and(|attr| attr.blocks != told)
        {
            self.notifier.inval_inode(ino, None);
        }
    }

    /// A worker tells of what has come until then.
    fn tell_later(&self) {
        let told_blocks = Arc::clone(&self.told_blocks);
        let (notifier, vfs) = (Arc::clone(&self.notifier), self.vfs.clone());
        let work = move || {
            let mut looks = 0;
            let all = loop {
                thread::sleep(BETWEEN);
                looks += 1;
                let is_over = looks == LOOKS || notifier.is_closed();
                if let Some(all) = told_blocks.end(is_over) {
                    break all;
                }
            };
            for (ino, told) in all {
                let attr = vfs.block_on(|vfs| vfs.getattr(&Caller::ROOT, ino));
                if attr.is_ok_and(|attr| attr.blocks != told) {
                    notifier.inval_inode(ino, None);
                }
            }
            Ok(InlineReply::default())
        };
        let offload = Offload::Blocks {
            class: BlockingClass::Wait,
            work: Box::new(work),
        };
        let refused = Arc::clone(&self.told_blocks);
        self.workers.submit(
            offload,
            Box::new(move |result| {
                if result.is_err() {
                    // No thread is to be had: the next pages ask for one again.
                    refused.end(true);
                }
            }),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_waits_and_tells_what_nobody_has_asked_again() {
        let told = ToldBlocks::default();
        assert!(told.begins(7, 0), "the first asks for a worker");
        assert!(!told.begins(8, 16) && !told.begins(7, 8));
        assert!(told.knows(7) && told.knows(8) && !told.knows(9));
        assert_eq!(told.end(false), None, "there is time");
        assert_eq!((told.take(8), told.take(8)), (Some(16), None));
        assert_eq!(told.end(true), Some(HashMap::from([(7, 0)])));
        assert!(told.begins(7, 8), "the worker has ended");
        assert_eq!(told.take(7), Some(8));
        assert_eq!(told.end(false), Some(HashMap::new()), "nobody is left");
        assert_eq!(told.take(7), None);
    }
}
