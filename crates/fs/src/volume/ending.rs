//! How an inode ends that has neither name nor reference: `docs/design/eviction.md`.

use super::superblock::{INODE_BYTES, PAGE_BYTES, Superblock};
use crate::backend::Change;
use crate::errno::Result;
use crate::inode::{Inode, InodeExt, InodeRef};
use crate::quota::Resource;
use hearth_sync::epoch::{self, Guard};
use hearth_sync::primitive::atomic::{Ordering, fence};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What the backend answered; it may have panicked.
pub(super) type Told = std::result::Result<Result<()>, Box<dyn Any + Send>>;

impl Superblock {
    /// Gives a reference back, and the inode with it if that was the last one of a file without a
    /// name.
    pub fn release(&self, inode: InodeRef, g: &Guard) {
        let number = inode.number();
        drop(inode);
        if let Some(inode) = self.inodes.get(number, g) {
            self.iput_final(inode, g);
        }
    }

    /// Frees an inode that has neither name nor reference: `docs/design/eviction.md`.
    pub fn iput_final(&self, inode: &Inode, g: &Guard) {
        // Who takes the last name stores the link count and then looks for references; who gives
        // the last reference back subtracts it and then looks at the link count. SeqCst: partner is
        // this fence in the other thread; of the two, at least one sees what the other did before
        // it.
        fence(Ordering::SeqCst);
        if !inode.meta.is_unlinked() {
            return;
        }
        // Before it can end, so that whoever ends it finds it counted.
        self.count_nameless(inode);
        if !self.backend.evictable() {
            if self.inodes.retire(inode, g) {
                self.settle(inode, g);
            } else {
                self.discount_named(inode);
            }
            return;
        }
        let told = {
            // Nobody brings it back before the backend has forgotten it.
            let _one = self.inode_io_lock(inode.number()).lock_guard();
            let ended = self.inodes.evict(inode, g);
            ended.then(|| self.tell_of_end(inode))
        };
        if let Some(told) = told {
            self.finish(inode, told, g);
        } else {
            self.discount_named(inode);
        }
    }

    /// Lets the backend forget an inode that has ended for good. The caller holds `inode_io_lock` for it.
    pub(super) fn tell_of_end(&self, inode: &Inode) -> Told {
        let forget = || self.backend.commit(&[Change::Drop(inode.number())]);
        let told = catch_unwind(AssertUnwindSafe(forget));
        if !matches!(told, Ok(Ok(()))) {
            let (number, generation) = (inode.number(), inode.generation());
            self.orphans.lock().insert(number, generation);
        }
        told
    }

    /// Whether the backend was to forget an inode and has not.
    pub(super) fn is_orphan(&self, ino: u64) -> bool {
        self.orphans.lock().contains_key(&ino)
    }

    /// Lets the backend forget what it has not when it was to.
    pub(super) fn bury(&self) -> Result<()> {
        let orphans: Vec<(u64, u32)> = self.orphans.lock().iter().map(|(&n, &g)| (n, g)).collect();
        for (number, generation) in orphans {
            let _one = self.inode_io_lock(number).lock_guard();
            // Somebody else may have done it.
            if self.is_orphan(number) {
                self.backend.commit(&[Change::Drop(number)])?;
                self.orphans.lock().remove(&number);
                self.inodes.release(number, generation);
            }
        }
        Ok(())
    }

    /// Gives back what an inode had that ended for good, and answers the bytes of memory. Neither
    /// its locks nor `inode_io_lock` are held.
    pub(super) fn finish(&self, inode: &Inode, told: Told, g: &Guard) -> u64 {
        let bytes = self.settle(inode, g);
        match told {
            // The number stayed taken until the backend had forgotten what it means.
            Ok(Ok(())) => self.inodes.release(inode.number(), inode.generation()),
            // The backend keeps it, and is told again when the volume is synced.
            Ok(Err(_)) => {}
            Err(panic) => resume_unwind(panic),
        }
        bytes
    }

    /// The same but for its number.
    fn settle(&self, inode: &Inode, g: &Guard) -> u64 {
        let bytes = INODE_BYTES + self.free_charge(inode, g) as i64 * PAGE_BYTES;
        // It stays marked: another who finds it without a name must not count it again.
        self.unlinked.add(-1);
        self.heat.forget(self, inode);
        self.mem_usage.add(-bytes);
        bytes as u64
    }

    /// A link that came while it was counted may have looked before that.
    fn discount_named(&self, inode: &Inode) {
        // SeqCst: partner is the fence in `discount_nameless`; of the two, at least one sees what
        // the other did.
        fence(Ordering::SeqCst);
        if !inode.meta.is_unlinked() {
            self.discount_nameless(inode);
        }
    }

    /// Room of a file without a name is to come back.
    pub(super) fn count_nameless(&self, inode: &Inode) {
        if inode.meta.set_awaited(true) {
            self.unlinked.add(1);
        }
    }

    /// It has a name now, of somebody who holds a reference.
    pub fn discount_nameless(&self, inode: &Inode) {
        // SeqCst: see `iput_final`, which counts it and then looks whether it has a name.
        fence(Ordering::SeqCst);
        if inode.meta.set_awaited(false) {
            self.unlinked.add(-1);
        }
    }

    /// Whoever changes an inode that nobody holds may come beside its end: what it is charged for
    /// goes under `change` and `growth`, and who comes after finds no account. Answers the pages
    /// that are to leave the memory budget: a reclaim counts those that it drops under the same
    /// locks.
    fn free_charge(&self, inode: &Inode, g: &Guard) -> u64 {
        let _still = (inode.meta.change.lock(), inode.meta.growth.lock());
        let account = inode.meta.account();
        let blocks = inode.blocks();
        epoch::weigh((blocks as usize).saturating_mul(PAGE_BYTES as usize), g);
        self.ledger.free(account, Resource::Blocks, blocks, g);
        self.ledger.free(account, Resource::Inodes, 1, g);
        inode.meta.end_account();
        match inode.data() {
            Some(data) if self.backend.evictable() => data.resident_pages(g),
            _ => 0,
        }
    }
}
