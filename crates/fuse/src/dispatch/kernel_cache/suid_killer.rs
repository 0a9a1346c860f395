//! Kills setuid and setgid of a file that an unprivileged caller changes.
//!
//! The kernel flags requests of such callers and leaves the rest to the daemon
//! (`HANDLE_KILLPRIV_V2`). But it keeps the mode that it has cached: after a write, an allocation or
//! a copy it takes sizes and times for stale, and nothing else. Until it asks for those, `execve`
//! honours the cached bits. So the kernel is notified, and before there are other contents to run.

use crate::dispatch::Dispatcher;
use crate::dispatch::kernel_cache::notifier::Notifier;
use hearth::{Caller, KernelCache, VfsResult};
use hearth_sync::primitive::Arc;

/// Kills the bits, for work that runs apart from the dispatcher.
#[derive(Clone)]
pub(crate) struct SuidKiller<V: KernelCache> {
    vfs: V,
    notifier: Arc<Notifier<V>>,
}

impl<V: KernelCache> SuidKiller<V> {
    pub fn of(dispatcher: &Dispatcher<V>) -> SuidKiller<V> {
        SuidKiller {
            vfs: dispatcher.vfs.clone(),
            notifier: Arc::clone(&dispatcher.notifier),
        }
    }

    /// `caller`, whom the kernel flagged as unprivileged, changes `ino`.
    pub fn strip(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<()> {
        strip(&self.vfs, &self.notifier, caller, ino)
    }

    /// `caller` allocates or copies. The kernel flags only writes, so the caller's privilege decides.
    pub fn strip_untold(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<()> {
        match caller.privileged() {
            true => Ok(()),
            false => self.strip(caller, ino),
        }
    }
}

impl<V: KernelCache> Dispatcher<V> {
    /// `caller`, whom the kernel flagged as unprivileged, changes `ino`.
    pub(crate) fn strip_suidgid(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<()> {
        strip(&self.vfs, &self.notifier, caller, ino)
    }
}

fn strip<V: KernelCache>(
    vfs: &V,
    notifier: &Notifier<V>,
    caller: &Caller<'_>,
    ino: u64,
) -> VfsResult<()> {
    if vfs.strip_suidgid(caller, ino)? {
        notifier.inval_inode(ino, None);
    }
    Ok(())
}
