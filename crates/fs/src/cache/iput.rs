//! The end of an inode that has neither name nor reference: `docs/design/eviction.md`.

use crate::directory::Directory;
use crate::inode::{Inode, InodeExt, InodeRef, Recorded};
use crate::log::ChangeLog;
use crate::quota::Resource;
use crate::superblock::{PAGE_BYTES, Superblock, inode_bytes, resident_bytes};
use hearth_sync::epoch::{self, Guard};
use hearth_sync::primitive::atomic::{Ordering, fence};

impl Superblock {
    /// Gives a reference back. The last reference of an unlinked inode ends the inode.
    pub fn release(&self, inode: InodeRef, g: &Guard) {
        let released = inode.pinned(g);
        // SeqCst: see `iput_final`.
        inode.release_and_fence();
        self.iput_final(released, g);
    }

    /// Frees an inode that has neither name nor reference. Who has given a reference back has a
    /// full fence behind that.
    #[inline]
    pub fn iput_final(&self, inode: &Inode, g: &Guard) {
        // The thread that removes the last name stores the link count and then looks for
        // references. The thread that gives the last reference back subtracts it and then looks at
        // the link count. Between the two steps each has a full fence: here it is the one in
        // `Table::retire` and `Table::evict`, before they look. At least one of the two sees what
        // the other did before its fence.
        if inode.meta.is_unlinked() {
            self.end(inode, g);
        }
    }

    #[inline(never)]
    fn end(&self, inode: &Inode, g: &Guard) {
        let has_ended = match self.log() {
            None => self.objects.inodes.retire(inode, g),
            Some(log) => self.evict_and_bury(inode, log, g),
        };
        if has_ended {
            self.free_resources(inode, g);
        } else {
            self.count_kept(inode);
        }
    }

    #[inline(never)]
    fn evict_and_bury(&self, inode: &Inode, log: &ChangeLog, g: &Guard) -> bool {
        // Under this lock no thread fetches the inode again before it is a ghost.
        let _one = self.inode_io_lock(inode.number()).lock_guard();
        let has_ended = self.objects.inodes.evict(inode, g);
        if has_ended {
            self.bury(inode, log);
        }
        has_ended
    }

    /// Records the end of an inode. Its number stays taken until the backend has forgotten it, if
    /// that has heard or will hear of it. The caller holds `inode_io_lock` of the inode.
    fn bury(&self, inode: &Inode, log: &ChangeLog) {
        let (ino, generation) = (inode.number(), inode.generation());
        let note_ghost = || self.cache.ghosts.insert(ino, generation);
        let is_known = log.append_end(
            (ino, generation),
            inode.meta.has_recorded(Recorded::Apart),
            note_ghost,
        );
        self.cache.note_left(ino);
        log.gaps.forget(ino);
        if !is_known {
            self.objects.inodes.release(ino, generation);
        }
    }

    /// [`Superblock::bury`] of an unlinked inode that was evicted.
    pub(super) fn bury_evicted(&self, inode: &Inode) {
        if let Some(log) = self.log() {
            self.bury(inode, log);
        }
    }

    /// Gives back charges, heat and memory of an inode that has ended. Returns the bytes of memory
    /// freed.
    pub(super) fn free_resources(&self, inode: &Inode, g: &Guard) -> u64 {
        let names = inode.directory().map_or(0, Directory::counted);
        let bytes = names + self.free_charge(inode, g);
        // For ever: another thread that has found the inode unlinked and in use, or named, before
        // it ended, neither counts nor discounts it any more.
        if inode.meta.end_counted() {
            self.cache.unlinked.add(-1);
        }
        self.heat.forget(&self.objects, inode);
        self.cache.mem_usage.add(-bytes);
        bytes as u64
    }

    /// Counts an unlinked inode that was found in use: its space is to come back. Who ends it
    /// finds the mark and takes it out of the count, or leaves one that it is not counted any more.
    #[inline(never)]
    fn count_kept(&self, inode: &Inode) {
        if inode.meta.set_counted(true) {
            self.cache.unlinked.add(1);
        }
        // A link that was made meanwhile may have looked before that. SeqCst: partner is the fence
        // in `discount_unlinked`; at least one of the two sees what the other did.
        fence(Ordering::SeqCst);
        if !inode.meta.is_unlinked() {
            self.discount_unlinked(inode);
        }
    }

    /// Takes an inode out of the count of unlinked inodes: the holder of a reference gave it a
    /// name.
    pub fn discount_unlinked(&self, inode: &Inode) {
        // SeqCst: see `count_kept`, which counts the inode and then looks whether it has a name.
        fence(Ordering::SeqCst);
        if inode.meta.set_counted(false) {
            self.cache.unlinked.add(-1);
        }
    }

    /// Gives back the charges of an inode that has ended. A change of an inode without references
    /// may run beside its end. So the charges are given back under `change` and `growth`, and a
    /// later change finds no account. Returns what leaves the memory budget, without names; 0 where
    /// that does not count. A
    /// reclaim counts the pages that it drops under the same locks, and a change its attributes.
    fn free_charge(&self, inode: &Inode, g: &Guard) -> i64 {
        let _still = (inode.meta.change.lock(), inode.meta.growth.lock());
        let account = inode.meta.account();
        let blocks = inode.blocks();
        epoch::account((blocks as usize).saturating_mul(PAGE_BYTES as usize), g);
        self.quotas
            .ledger
            .free(account, Resource::Blocks, blocks, g);
        self.quotas.ledger.free(account, Resource::Inodes, 1, g);
        inode.meta.end_account();
        if !self.is_durable() {
            return 0;
        }
        let data = inode.data();
        inode_bytes(inode, g) + data.map_or(0, |data| resident_bytes(data.resident(g)))
    }
}
