//! The end of an inode that has neither name nor reference: `docs/design/eviction.md`.

use super::caught::{Caught, caught};
use crate::backend::BackendOp;
use crate::errno::Result;
use crate::inode::{Inode, InodeExt, InodeRef};
use crate::quota::Resource;
use crate::superblock::{INODE_BYTES, PAGE_BYTES, Superblock};
use hearth_sync::epoch::{self, Guard};
use hearth_sync::primitive::atomic::{Ordering, fence};
use std::panic::resume_unwind;

impl Superblock {
    /// Gives a reference back. The last reference of an unlinked inode ends the inode.
    pub fn release(&self, inode: InodeRef, g: &Guard) {
        let number = inode.number();
        drop(inode);
        if let Some(inode) = self.objects.inodes.get(number, g) {
            self.iput_final(inode, g);
        }
    }

    /// Frees an inode that has neither name nor reference.
    pub fn iput_final(&self, inode: &Inode, g: &Guard) {
        // The thread that removes the last name stores the link count and then looks for
        // references. The thread that gives the last reference back subtracts it and then looks at
        // the link count. SeqCst: the partner is this fence in the other thread. At least one of
        // the two sees what the other did before its fence.
        fence(Ordering::SeqCst);
        if !inode.meta.is_unlinked() {
            return;
        }
        // Counted before the inode can end, so that the thread that ends it finds it counted.
        self.count_unlinked(inode);
        if !self.objects.backend.evictable() {
            if self.objects.inodes.retire(inode, g) {
                self.free_resources(inode, g);
            } else {
                self.discount_linked(inode);
            }
            return;
        }
        let dropped = {
            // Under this lock no thread fetches the inode again before the backend has forgotten
            // it.
            let _one = self.inode_io_lock(inode.number()).lock_guard();
            let ended = self.objects.inodes.evict(inode, g);
            ended.then(|| self.drop_from_backend(inode))
        };
        if let Some(dropped) = dropped {
            self.finish(inode, dropped, g);
        } else {
            self.discount_linked(inode);
        }
    }

    /// Makes the backend forget an inode that has ended for good. If that fails, the inode becomes
    /// an orphan. The caller holds `inode_io_lock` of the inode.
    pub(super) fn drop_from_backend(&self, inode: &Inode) -> Caught<Result<()>> {
        let forget = || {
            self.objects
                .backend
                .commit(&[BackendOp::Drop(inode.number())])
        };
        let dropped = caught(forget);
        if !matches!(dropped, Ok(Ok(()))) {
            let (number, generation) = (inode.number(), inode.generation());
            self.cache.orphans.lock().insert(number, generation);
        }
        dropped
    }

    /// Whether inode `ino` is an orphan: it has ended, and the backend has not forgotten it.
    pub(super) fn is_orphan(&self, ino: u64) -> bool {
        self.cache.orphans.lock().contains_key(&ino)
    }

    /// Tries again to make the backend forget the orphans.
    pub(super) fn retry_orphan_deletes(&self) -> Result<()> {
        let orphans: Vec<(u64, u32)> = self
            .cache
            .orphans
            .lock()
            .iter()
            .map(|(&n, &g)| (n, g))
            .collect();
        for (number, generation) in orphans {
            let _one = self.inode_io_lock(number).lock_guard();
            // Another thread may have done so meanwhile.
            if self.is_orphan(number) {
                self.objects.backend.commit(&[BackendOp::Drop(number)])?;
                self.cache.orphans.lock().remove(&number);
                self.objects.inodes.release(number, generation);
            }
        }
        Ok(())
    }

    /// Gives back the resources of an inode that has ended for good. Returns the bytes of memory
    /// freed. The caller holds neither its locks nor `inode_io_lock`.
    pub(super) fn finish(&self, inode: &Inode, dropped: Caught<Result<()>>, g: &Guard) -> u64 {
        let bytes = self.free_resources(inode, g);
        match dropped {
            // The number stayed taken until the backend had forgotten the inode.
            Ok(Ok(())) => self
                .objects
                .inodes
                .release(inode.number(), inode.generation()),
            // An orphan: the next sync of the volume tries again.
            Ok(Err(_)) => {}
            Err(panic) => resume_unwind(panic),
        }
        bytes
    }

    /// Gives back charges, heat and memory of an inode that has ended. Returns the bytes of memory
    /// freed.
    fn free_resources(&self, inode: &Inode, g: &Guard) -> u64 {
        let bytes = INODE_BYTES + self.free_charge(inode, g) as i64 * PAGE_BYTES;
        // The inode's mark as counted stays: another thread that finds the inode unlinked must not
        // count it again.
        self.cache.unlinked.add(-1);
        self.heat.forget(&self.objects, inode);
        self.cache.mem_usage.add(-bytes);
        bytes as u64
    }

    /// A link that was made while the inode was being counted may have looked before that.
    fn discount_linked(&self, inode: &Inode) {
        // SeqCst: partner is the fence in `discount_unlinked`; at least one of the two sees what
        // the other did.
        fence(Ordering::SeqCst);
        if !inode.meta.is_unlinked() {
            self.discount_unlinked(inode);
        }
    }

    /// Counts an unlinked inode, whose space is to come back.
    pub(super) fn count_unlinked(&self, inode: &Inode) {
        if inode.meta.set_counted(true) {
            self.cache.unlinked.add(1);
        }
    }

    /// Takes an inode out of the count of unlinked inodes: the holder of a reference gave it a
    /// name.
    pub fn discount_unlinked(&self, inode: &Inode) {
        // SeqCst: see `iput_final`, which counts the inode and then looks whether it has a name.
        fence(Ordering::SeqCst);
        if inode.meta.set_counted(false) {
            self.cache.unlinked.add(-1);
        }
    }

    /// Gives back the charges of an inode that has ended. A change of an inode without references
    /// may run beside its end. So the charges are given back under `change` and `growth`, and a
    /// later change finds no account. Returns the pages that leave the memory budget. A reclaim
    /// counts the pages that it drops under the same locks.
    fn free_charge(&self, inode: &Inode, g: &Guard) -> u64 {
        let _still = (inode.meta.change.lock(), inode.meta.growth.lock());
        let account = inode.meta.account();
        let blocks = inode.blocks();
        epoch::account((blocks as usize).saturating_mul(PAGE_BYTES as usize), g);
        self.quotas
            .ledger
            .free(account, Resource::Blocks, blocks, g);
        self.quotas.ledger.free(account, Resource::Inodes, 1, g);
        inode.meta.end_account();
        match inode.data() {
            Some(data) if self.objects.backend.evictable() => data.resident_pages(g),
            _ => 0,
        }
    }
}
