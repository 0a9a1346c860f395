//! Bounds the memory that delayed requests hold, by delaying some replies in place of requests.
//!
//! A program has as many writes under way as it has threads, and all of them may write from one
//! buffer. If each that a rate limit delays kept its data, the sum would have no bound. So what
//! comes beyond [`MOST`] is done when it comes, and its reply waits for the rate limits.

use super::outcome::Held;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::AtomicUsize;
use std::collections::BTreeMap;

/// Bytes of data that the delayed requests of a mount hold, all together.
pub(crate) const MOST: usize = 16 << 20;
/// Bytes of early writes of one tenant that may be without a caller, because that was killed,
/// before the rate limits allow them: as many as a thousand threads have under way.
const FORGIVEN: usize = 1 << 30;
/// A write counts as at least so many of them, since each also is a task.
const LEAST: usize = 64 << 10;

lock_class!(ForgivenLock = "fuse.forgiven", 874);

/// The memory of delayed requests of a session.
#[derive(Default)]
pub(crate) struct DelayedMemory {
    held: Arc<AtomicUsize>,
    /// By the number of the tenant.
    forgiven: Lock<ForgivenLock, BTreeMap<u64, usize>>,
}

/// An early write whose caller was killed. Its time has not come.
pub(crate) struct Forgiven {
    memory: Arc<DelayedMemory>,
    tenant: u64,
    bytes: usize,
}

impl Drop for Forgiven {
    fn drop(&mut self) {
        let mut forgiven = self.memory.forgiven.lock();
        if let Some(bytes) = forgiven.get_mut(&self.tenant) {
            *bytes = bytes.saturating_sub(self.bytes);
            if *bytes == 0 {
                forgiven.remove(&self.tenant);
            }
        }
    }
}

impl DelayedMemory {
    /// A request with this many bytes of data is delayed; `None` if too much is held already.
    pub fn hold(&self, bytes: usize) -> Option<Held> {
        let (held, all) = Held::of(&self.held, bytes);
        (bytes == 0 || all <= MOST).then_some(held)
    }

    /// The caller of an early write was killed; `None` if its death may not end the wait.
    pub fn forgive(self: &Arc<DelayedMemory>, tenant: u64, bytes: usize) -> Option<Forgiven> {
        let bytes = bytes.max(LEAST);
        let mut forgiven = self.forgiven.lock();
        let sum = forgiven.get(&tenant).copied().unwrap_or_default() + bytes;
        (sum <= FORGIVEN).then(|| {
            forgiven.insert(tenant, sum);
            Forgiven {
                memory: Arc::clone(self),
                tenant,
                bytes,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_bytes_are_held_and_no_more() {
        let memory = Arc::new(DelayedMemory::default());
        let mut held: Vec<_> = (0..16).map(|_| memory.hold(1 << 20).unwrap()).collect();
        assert!(memory.hold(1).is_none() && memory.hold(1 << 20).is_none());
        assert!(memory.hold(0).is_some(), "it holds nothing");
        held.pop();
        assert!(memory.hold(1 << 20).is_some());
    }

    #[test]
    fn deaths_end_the_waits_of_so_many_bytes_of_each_tenant() {
        let memory = Arc::new(DelayedMemory::default());
        let mut forgiven: Vec<_> = (0..FORGIVEN / LEAST)
            .map(|_| memory.forgive(7, 1).unwrap())
            .collect();
        assert!(memory.forgive(7, 1).is_none());
        assert!(memory.forgive(8, 1).is_some(), "of another tenant");
        forgiven.pop();
        assert!(memory.forgive(7, 1).is_some());
        drop(forgiven);
        assert!(memory.forgiven.lock().is_empty());
    }
}
