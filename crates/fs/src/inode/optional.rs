//! What few inodes have: advisory locks, extended attributes, ACLs.

use super::xattrs_acls::XattrsAcls;
use crate::cache_padded::CachePadded;
use crate::locks::{FileLocks, LockAllowance};
use hearth_sync::epoch::Guard;
use hearth_sync::rcu::{OnceSlot, RcuSlot};

/// The optional parts of an inode. Made when the inode gets the first of them, and kept until the
/// inode goes: the pointer to it can so lie on a line that every lookup reads, while changes write
/// lines of their own.
#[derive(Default)]
pub(crate) struct OptionalParts(OnceSlot<Allocated>);

#[derive(Default)]
struct Allocated {
    locks: CachePadded<OnceSlot<FileLocks>>,
    /// Replaced as a whole under `change`, read under the epoch.
    extra: CachePadded<RcuSlot<XattrsAcls>>,
}

impl OptionalParts {
    /// The advisory locks, if there ever were any.
    #[inline]
    pub fn locks(&self) -> Option<&FileLocks> {
        self.0.get()?.locks.0.get()
    }

    /// The advisory locks, made on first use within the volume's `allowance`.
    pub fn locks_within(&self, allowance: &LockAllowance) -> &FileLocks {
        let locks = &self.parts().locks.0;
        locks.get_or_set(|| FileLocks::within(allowance.clone()))
    }

    /// Extended attributes and ACLs.
    #[inline]
    pub fn extra<'g>(&'g self, g: &'g Guard) -> Option<&'g XattrsAcls> {
        self.0.get()?.extra.0.load(g)
    }

    /// The caller holds `change`, or is the only one who knows the inode.
    pub fn set_extra(&self, extra: Option<Box<XattrsAcls>>, g: &Guard) {
        if extra.is_some() || self.0.get().is_some() {
            self.parts().extra.0.store(extra, g);
        }
    }

    fn parts(&self) -> &Allocated {
        self.0.get_or_set(Allocated::default)
    }
}
