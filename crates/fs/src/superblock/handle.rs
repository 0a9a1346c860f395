//! Handles of a volume: a reference count that is split over the cores.
//!
//! Every process has a handle. With one count, `fork` and exit on two cores would write the same
//! cache line. So each core that takes handles has a share of the volume and counts the handles of
//! its share. The volume counts shares. A share is dropped with its last handle, on any core.

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::{Arc, Weak};
use std::ops::Deref;

/// A value that can have handles.
pub(crate) trait HasHandles: Sized {
    /// The shares of this value.
    fn handles(&self) -> &HandleShares<Self>;

    /// Whether this process is a fork of the one that made the value. A fork has none of its
    /// threads, so there the value is not dropped but forgotten.
    fn is_forked(&self) -> bool {
        false
    }
}

/// A handle: the value lives as long as there is one.
pub(crate) struct Handle<T: HasHandles> {
    share: Arc<Share<T>>,
}

/// The share of one core: what the handles that were taken there have in common. It has a cache
/// line of its own, because threads of every core read it while the count beside it changes.
#[repr(align(64))]
struct Share<T: HasHandles> {
    of: Arc<T>,
}

impl<T: HasHandles> Drop for Share<T> {
    fn drop(&mut self) {
        if self.of.is_forked() {
            std::mem::forget(Arc::clone(&self.of));
        }
    }
}

/// The share of each core, while it has handles.
pub(crate) struct HandleShares<T: HasHandles>(PerCpu<Lock<HandleSharesLock, Weak<Share<T>>>>);

lock_class!(HandleSharesLock = "volume.share", 946);

impl<T: HasHandles> Handle<T> {
    /// Takes a handle from the share of this core.
    pub fn new(of: &Arc<T>) -> Handle<T> {
        let mut mine = of.handles().0.get().lock();
        let share = mine.upgrade().unwrap_or_else(|| {
            let share = Arc::new(Share { of: Arc::clone(of) });
            *mine = Arc::downgrade(&share);
            share
        });
        Handle { share }
    }

    /// A reference that does not keep the value alive.
    pub fn downgrade(&self) -> Weak<T> {
        Arc::downgrade(&self.share.of)
    }
}

impl<T: HasHandles> HandleShares<T> {
    pub fn new() -> HandleShares<T> {
        HandleShares(PerCpu::new(|_| Lock::new(Weak::new())))
    }
}

impl<T: HasHandles> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        Handle::new(&self.share.of)
    }
}

impl<T: HasHandles> Deref for Handle<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.share.of
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use crate::{Credentials, Volume};

    #[test]
    fn a_volume_is_dropped_with_its_last_handle_on_any_core() {
        let volume = Volume::memory();
        let sb = volume.sb.downgrade();
        let process = volume.process(Credentials::root());
        let child = std::thread::spawn(move || process.fork())
            .join()
            .expect("fork works");
        drop(volume);
        assert!(sb.upgrade().is_some(), "the child has a handle");
        let grandchild = child.fork();
        drop(child);
        assert!(sb.upgrade().is_some(), "its child has one");
        drop(grandchild);
        assert!(sb.upgrade().is_none(), "nobody has one");
    }
}
