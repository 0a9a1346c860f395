//! Handles of a volume, counted per core.
//!
//! Every process has a handle, so `fork` and exit on two cores would meet in one count. Here each
//! core that takes handles has a share of the volume and counts the handles of its share; the
//! volume counts shares. A share goes with its last handle, whichever core gives that up.

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::{Arc, Weak};
use std::ops::Deref;

/// What is shared in this way.
pub(crate) trait Shared: Sized {
    /// Its shares.
    fn shares(&self) -> &Shares<Self>;
}

/// A handle: what it leads to lives as long as there is one.
pub(crate) struct Handle<T: Shared> {
    share: Arc<Share<T>>,
}

/// What the handles taken on one core have in common. On a line of its own: threads of every core
/// go through it, while the count beside it moves.
#[repr(align(64))]
struct Share<T> {
    of: Arc<T>,
}

/// The share of each core, while it has handles.
pub(crate) struct Shares<T>(PerCpu<Lock<SharesClass, Weak<Share<T>>>>);

lock_class!(SharesClass = "volume.share", 946);

impl<T: Shared> Handle<T> {
    /// A handle of this core.
    pub fn new(of: &Arc<T>) -> Handle<T> {
        let mut mine = of.shares().0.get().lock();
        let share = mine.upgrade().unwrap_or_else(|| {
            let share = Arc::new(Share { of: Arc::clone(of) });
            *mine = Arc::downgrade(&share);
            share
        });
        Handle { share }
    }

    /// For who must not keep it alive.
    pub fn downgrade(&self) -> Weak<T> {
        Arc::downgrade(&self.share.of)
    }
}

impl<T> Shares<T> {
    pub fn new() -> Shares<T> {
        Shares(PerCpu::new(|_| Lock::new(Weak::new())))
    }
}

impl<T: Shared> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        Handle::new(&self.share.of)
    }
}

impl<T: Shared> Deref for Handle<T> {
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
    fn a_volume_goes_with_the_last_of_its_handles_wherever_they_were_taken() {
        let volume = Volume::memory();
        let core = volume.core.downgrade();
        let process = volume.process(Credentials::root());
        let child = std::thread::spawn(move || process.fork())
            .join()
            .expect("fork works");
        drop(volume);
        assert!(core.upgrade().is_some(), "the child has a handle");
        let grandchild = child.fork();
        drop(child);
        assert!(core.upgrade().is_some(), "its child has one");
        drop(grandchild);
        assert!(core.upgrade().is_none(), "nobody has one");
    }
}
