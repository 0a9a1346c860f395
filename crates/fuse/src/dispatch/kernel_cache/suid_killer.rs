//! Setuid and setgid, which a file loses to a stranger who changes it.
//!
//! The kernel says with a request who is one, and leaves the rest to us (`HANDLE_KILLPRIV_V2`). But
//! it keeps the mode that it has: of a write, an allocation or a copy it takes sizes and times for
//! stale afterwards, and nothing else. Until it asks for those, who looks at the mode alone still
//! sees the bits, and `execve` honours them. So it is told, and before there are other contents.

use crate::dispatch::Dispatcher;
use crate::dispatch::kernel_cache::notifier::Notifier;
use hearth::{Caller, Door, Errno};
use hearth_sync::primitive::Arc;

/// Takes the bits away, for those who work on requests whose dispatcher is elsewhere.
#[derive(Clone)]
pub(crate) struct SuidKiller {
    door: Door,
    notifier: Arc<Notifier>,
}

impl SuidKiller {
    pub fn of(dispatcher: &Dispatcher) -> SuidKiller {
        SuidKiller {
            door: dispatcher.door.clone(),
            notifier: Arc::clone(&dispatcher.notifier),
        }
    }

    /// `caller`, a stranger, changes `ino`.
    pub fn strip(&self, caller: &Caller<'_>, ino: u64) -> Result<(), Errno> {
        strip(&self.door, &self.notifier, caller, ino)
    }

    /// `caller` allocates or copies: only with writes does the kernel say who loses the bits.
    pub fn strip_untold(&self, caller: &Caller<'_>, ino: u64) -> Result<(), Errno> {
        match caller.privileged() {
            true => Ok(()),
            false => self.strip(caller, ino),
        }
    }
}

impl Dispatcher {
    /// `caller`, a stranger, changes `ino`.
    pub(crate) fn strip_suidgid(&self, caller: &Caller<'_>, ino: u64) -> Result<(), Errno> {
        strip(&self.door, &self.notifier, caller, ino)
    }
}

fn strip(door: &Door, notifier: &Notifier, caller: &Caller<'_>, ino: u64) -> Result<(), Errno> {
    if door.strip_suidgid(caller, ino)? {
        notifier.inval_inode(ino, None);
    }
    Ok(())
}
