//! How an inode ends that has neither name nor reference: `docs/design/eviction.md`.

use super::core::{Core, INODE_BYTES, PAGE_BYTES};
use crate::errno::Result;
use crate::home::Change;
use crate::inode::{Node, NodeExt, NodeRef};
use crate::quota::Resource;
use hearth_sync::epoch::{self, Guard};
use hearth_sync::primitive::atomic::{Ordering, fence};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What the home answered; it may have panicked.
pub(super) type Told = std::result::Result<Result<()>, Box<dyn Any + Send>>;

impl Core {
    /// Gives a reference back, and the inode with it if that was the last one of a file without a
    /// name.
    pub fn release(&self, node: NodeRef, g: &Guard) {
        let number = node.number();
        drop(node);
        if let Some(node) = self.inodes.get(number, g) {
            self.reap(node, g);
        }
    }

    /// Frees an inode that has neither name nor reference: `docs/design/eviction.md`.
    pub fn reap(&self, node: &Node, g: &Guard) {
        // Who takes the last name stores the link count and then looks for references; who gives
        // the last reference back subtracts it and then looks at the link count. SeqCst: partner is
        // this fence in the other thread; of the two, at least one sees what the other did before
        // it.
        fence(Ordering::SeqCst);
        if !node.meta.is_nameless() {
            return;
        }
        // Before it can end, so that whoever ends it finds it counted.
        self.count_nameless(node);
        if !self.home.evictable() {
            if self.inodes.retire(node, g) {
                self.settle(node, g);
            } else {
                self.discount_named(node);
            }
            return;
        }
        let told = {
            // Nobody brings it back before the home has forgotten it.
            let _one = self.homing(node.number()).lock_guard();
            let ended = self.inodes.evict(node, g);
            ended.then(|| self.tell_of_end(node))
        };
        if let Some(told) = told {
            self.finish(node, told, g);
        } else {
            self.discount_named(node);
        }
    }

    /// Lets the home forget an inode that has ended for good. The caller holds `homing` for it.
    pub(super) fn tell_of_end(&self, node: &Node) -> Told {
        let forget = || self.home.commit(&[Change::Drop(node.number())]);
        let told = catch_unwind(AssertUnwindSafe(forget));
        if !matches!(told, Ok(Ok(()))) {
            let (number, generation) = (node.number(), node.generation());
            self.undead.lock().insert(number, generation);
        }
        told
    }

    /// Whether the home was to forget an inode and has not.
    pub(super) fn is_undead(&self, ino: u64) -> bool {
        self.undead.lock().contains_key(&ino)
    }

    /// Lets the home forget what it has not when it was to.
    pub(super) fn bury(&self) -> Result<()> {
        let undead: Vec<(u64, u32)> = self.undead.lock().iter().map(|(&n, &g)| (n, g)).collect();
        for (number, generation) in undead {
            let _one = self.homing(number).lock_guard();
            // Somebody else may have done it.
            if self.is_undead(number) {
                self.home.commit(&[Change::Drop(number)])?;
                self.undead.lock().remove(&number);
                self.inodes.release(number, generation);
            }
        }
        Ok(())
    }

    /// Gives back what an inode had that ended for good, and answers the bytes of memory. Neither
    /// its locks nor `homing` are held.
    pub(super) fn finish(&self, node: &Node, told: Told, g: &Guard) -> u64 {
        let bytes = self.settle(node, g);
        match told {
            // The number stayed taken until the home had forgotten what it means.
            Ok(Ok(())) => self.inodes.release(node.number(), node.generation()),
            // The home keeps it, and is told again when the volume is synced.
            Ok(Err(_)) => {}
            Err(panic) => resume_unwind(panic),
        }
        bytes
    }

    /// The same but for its number.
    fn settle(&self, node: &Node, g: &Guard) -> u64 {
        let bytes = INODE_BYTES + self.free_charge(node, g) as i64 * PAGE_BYTES;
        // It stays marked: another who finds it without a name must not count it again.
        self.nameless.add(-1);
        self.heat.forget(self, node);
        self.resident.add(-bytes);
        bytes as u64
    }

    /// A link that came while it was counted may have looked before that.
    fn discount_named(&self, node: &Node) {
        // SeqCst: partner is the fence in `discount_nameless`; of the two, at least one sees what
        // the other did.
        fence(Ordering::SeqCst);
        if !node.meta.is_nameless() {
            self.discount_nameless(node);
        }
    }

    /// Room of a file without a name is to come back.
    pub(super) fn count_nameless(&self, node: &Node) {
        if node.meta.set_awaited(true) {
            self.nameless.add(1);
        }
    }

    /// It has a name now, of somebody who holds a reference.
    pub fn discount_nameless(&self, node: &Node) {
        // SeqCst: see `reap`, which counts it and then looks whether it has a name.
        fence(Ordering::SeqCst);
        if node.meta.set_awaited(false) {
            self.nameless.add(-1);
        }
    }

    /// Whoever changes an inode that nobody holds may come beside its end: what it is charged for
    /// goes under `change` and `growth`, and who comes after finds no account. Answers the pages
    /// that are to leave the memory budget: a reclaim counts those that it drops under the same
    /// locks.
    fn free_charge(&self, node: &Node, g: &Guard) -> u64 {
        let _still = (node.meta.change.lock(), node.meta.growth.lock());
        let account = node.meta.account();
        let blocks = node.blocks();
        epoch::account((blocks as usize).saturating_mul(PAGE_BYTES as usize), g);
        self.ledger.free(account, Resource::Blocks, blocks, g);
        self.ledger.free(account, Resource::Inodes, 1, g);
        node.meta.end_account();
        match node.data() {
            Some(data) if self.home.evictable() => data.resident(g),
            _ => 0,
        }
    }
}
