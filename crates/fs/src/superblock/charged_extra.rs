//! What few new inodes have beside their attributes, with the charge for it. Apart from what makes
//! the others: most inodes have nothing of it.

use super::Superblock;
use crate::errno::Result;
use crate::inode::{InodeInner, XattrsAcls};
use crate::quota::{Charge, Resource};
use hearth_sync::epoch::Guard;

/// Extended attributes and ACLs for a new inode, and the blocks that they are charged for.
pub(super) struct ChargedExtra<'c> {
    charge: Option<Charge<'c>>,
    blocks: u64,
    extra: XattrsAcls,
}

impl Superblock {
    /// Charges them to an account. In a box: what most inodes do not have is then one word.
    #[cold]
    #[inline(never)]
    #[expect(
        clippy::boxed_local,
        reason = "it is large, and moved from function to function"
    )]
    pub(super) fn charge_extra<'c>(
        &'c self,
        account: u32,
        extra: Box<XattrsAcls>,
        g: &'c Guard,
    ) -> Result<Box<ChargedExtra<'c>>> {
        let blocks = extra.blocks();
        let ledger = &self.quotas.ledger;
        let charge = (blocks > 0).then(|| ledger.charge(account, Resource::Blocks, blocks, g));
        Ok(Box::new(ChargedExtra {
            charge: charge.transpose()?,
            blocks,
            extra: *extra,
        }))
    }
}

impl ChargedExtra<'_> {
    /// Gives them to a new inode, which nobody else knows yet. The charge is spent once the inode
    /// is in its place.
    #[cold]
    #[inline(never)]
    pub fn give_to(mut self: Box<Self>, inode: &InodeInner, g: &Guard) -> Box<Self> {
        inode.set_extra_blocks(self.blocks);
        inode.set_extra(std::mem::take(&mut self.extra), |_| {}, g, |_| {});
        self
    }

    /// The inode is in its place.
    #[expect(
        clippy::boxed_local,
        reason = "it is large, and moved from function to function"
    )]
    #[cold]
    #[inline(never)]
    pub fn spend(mut self: Box<Self>) {
        if let Some(charge) = &mut self.charge {
            charge.spend(self.blocks);
        }
    }
}
