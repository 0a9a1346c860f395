//! Room of a durable backend that is reserved for allocations under way. What is allocated is
//! counted as unwritten when it is made, so without this each of two at once would find the room
//! that is left for one.
//!
//! Lock order: `volume.promised` comes behind the locks of an inode, and before those of the log.

use super::Superblock;
use super::attempt::Attempt;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;

lock_class!(PromisedLock = "volume.promised", 80);

/// Bytes that are promised.
#[derive(Default)]
pub(crate) struct Promises(Lock<PromisedLock, u64>);

/// Room for an allocation, until it is kept or dropped.
pub(crate) struct Promise<'a> {
    promises: &'a Promises,
    bytes: u64,
}

impl Superblock {
    /// Promises room for so many bytes beside what is unwritten and promised; `ENOSPC` without it.
    pub fn promise_room(&self, bytes: u64) -> Attempt<Promise<'_>> {
        let promises = &self.cache.promises;
        if bytes == 0 || !self.is_durable() {
            return Ok(Promise { promises, bytes: 0 });
        }
        // Before the lock, which others hold while they look at the room.
        let may_try = self.is_full_for_long();
        let mut promised = promises.0.lock();
        let sum = promised.saturating_add(bytes);
        self.check_room_for(sum, may_try)?;
        *promised = sum;
        Ok(Promise { promises, bytes })
    }
}

impl Promise<'_> {
    /// Ends the promise with what was allocated counted by `count`. Another allocation finds the
    /// one or the other; what asks for no certain room does not see promises.
    pub fn keep(mut self, count: impl FnOnce()) {
        let mut promised = self.promises.0.lock();
        count();
        *promised -= std::mem::take(&mut self.bytes);
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            *self.promises.0.lock() -= self.bytes;
        }
    }
}
