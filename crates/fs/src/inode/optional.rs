//! What few inodes have: advisory locks, extended attributes, ACLs.

use super::xattrs_acls::XattrsAcls;
use crate::cache_padded::CachePadded;
use crate::locks::{FileLocks, LockAllowance};
use hearth_sync::epoch::{self, Guard};
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
    ///
    /// What is replaced waits for its readers with all its names and values: who changes them again
    /// and again waits as well.
    pub fn set_extra(&self, extra: Option<Box<XattrsAcls>>, g: &Guard) {
        if extra.is_some() || self.0.get().is_some() {
            let replaced = self.extra(g).map_or(0, XattrsAcls::memory);
            self.parts().extra.0.store(extra, g);
            epoch::account(replaced, g);
        }
    }

    fn parts(&self) -> &Allocated {
        self.0.get_or_set(Allocated::default)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_were_replaced_count_among_what_waits_for_readers() {
        const SETS: usize = 32;
        let value = vec![b'v'; 65_536];
        let parts = OptionalParts::default();
        // Nothing that is retired from here on is freed while it lives.
        let g = epoch::pin();
        for _ in 0..=SETS {
            let mut extra = XattrsAcls::default();
            extra.xattrs.insert(b"user.a", &value);
            parts.set_extra(Some(Box::new(extra)), &g);
        }
        let waits = epoch::pending() as usize;
        assert!(waits >= SETS * value.len(), "{waits} bytes");
    }
}
