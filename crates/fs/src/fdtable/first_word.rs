//! The first block of a table that hands out the lowest descriptor: 63 descriptors, enough for
//! nearly every program, taken and freed by writes of one word.
//!
//! A slot is claimed by an exchange of the word with its lowest clear bit set, so it is the lowest
//! at that moment. Changes of more than one write (a close empties the slot and clears the bit, a
//! fork reads everything) are made by the holder of the *word lock*, a bit of the same word: no
//! exchange succeeds meanwhile. `docs/design/fdtable.md` says why all changes have one order.
//!
//! | access | ordering | partner |
//! |---|---|---|
//! | claim | Acquire | the Release that freed the slot: the slot is empty |
//! | free a reserved slot | Release | the next claim |
//! | take the word lock | Acquire | the Release of the previous holder, and that of a freed slot |
//! | release the word lock | Release | the next claim, the next holder |

use hearth_sync::primitive::Backoff;
use hearth_sync::primitive::atomic::Ordering;

use super::block::{Block, lowest_clear};

/// The bit of the slot that is no descriptor: the word lock.
const LOCKED: u64 = 1;
/// How often a thread that can sleep elsewhere checks a held word lock.
const SPINS: u32 = if cfg!(feature = "shuttle") { 1 } else { 11 };

/// The word lock is held for longer than spinning is worth.
#[derive(Debug)]
pub(super) struct Busy;

/// Why one look at the word has claimed nothing.
enum ClaimMiss {
    /// The word lock is held.
    Locked,
    /// Another thread was first.
    Changed,
}

/// The word lock of a block is held. Its holder may change the block: see [`Block::change`].
pub(super) struct WordLock<'b, T: Send + Sync + 'static> {
    block: &'b Block<T>,
}

impl<T: Send + Sync + 'static> Block<T> {
    /// Locks the word for good, in a table that no other thread knows yet. Per-core, slots are
    /// handed out under the block's own lock, and the slot that is no descriptor is never free.
    pub(super) fn shut(&self) {
        // Relaxed: another thread learns of the table after this.
        self.used.store(LOCKED, Ordering::Relaxed);
    }

    /// Takes the lowest free slot in `from..end`, if there is one; `from` is not 0. Fails while the
    /// word is locked, even if no slot is free: a slot may be empty already.
    // Always inlined: the first look mostly decides, and a call would take as much.
    #[inline(always)]
    pub(super) fn claim(&self, from: u32, end: u32) -> Result<Option<u32>, Busy> {
        match self.try_claim(from, end) {
            Ok(claimed) => Ok(claimed),
            Err(_) => self.claim_later(from, end),
        }
    }

    #[cold]
    #[inline(never)]
    fn claim_later(&self, from: u32, end: u32) -> Result<Option<u32>, Busy> {
        let backoff = Backoff::new();
        let mut looks = 0;
        loop {
            match self.try_claim(from, end) {
                Ok(claimed) => return Ok(claimed),
                Err(ClaimMiss::Locked) => {
                    looks += 1;
                    if looks > SPINS {
                        return Err(Busy);
                    }
                    backoff.snooze();
                }
                Err(ClaimMiss::Changed) => backoff.spin(),
            }
        }
    }

    #[inline(always)]
    fn try_claim(&self, from: u32, end: u32) -> Result<Option<u32>, ClaimMiss> {
        // Relaxed: the exchange decides. A thread that has seen a slot empty sees here that its bit
        // is clear or that the word is still locked, because the slot was loaded with Acquire.
        let used = self.used.load(Ordering::Relaxed);
        if used & LOCKED != 0 {
            return Err(ClaimMiss::Locked);
        }
        let Some(bit) = lowest_clear(used, from, end) else {
            return Ok(None);
        };
        match self.exchange(used, used | 1 << bit, Ordering::Acquire) {
            true => Ok(Some(bit)),
            false => Err(ClaimMiss::Changed),
        }
    }

    /// Frees a slot that is empty; only the holder of the reservation may.
    pub(super) fn free(&self, bit: u32) -> Result<(), Busy> {
        let backoff = Backoff::new();
        for _ in 0..SPINS {
            // Relaxed: the exchange decides.
            let used = self.used.load(Ordering::Relaxed);
            let is_open = used & LOCKED == 0;
            if is_open && self.exchange(used, used & !(1 << bit), Ordering::Release) {
                return Ok(());
            }
            backoff.snooze();
        }
        Err(Busy)
    }

    /// Takes the word lock, unless it is held for long.
    // Always inlined: a call takes as much as the exchange.
    #[inline(always)]
    pub(super) fn try_lock_word(&self) -> Result<WordLock<'_, T>, Busy> {
        let backoff = Backoff::new();
        for _ in 0..SPINS {
            // Relaxed: the exchange decides.
            let used = self.used.load(Ordering::Relaxed);
            if used & LOCKED == 0 && self.exchange(used, used | LOCKED, Ordering::Acquire) {
                return Ok(WordLock { block: self });
            }
            backoff.snooze();
        }
        Err(Busy)
    }

    /// Takes the word lock.
    pub(super) fn lock_word(&self) -> WordLock<'_, T> {
        loop {
            if let Ok(lock) = self.try_lock_word() {
                return lock;
            }
        }
    }

    #[inline]
    fn exchange(&self, old: u64, new: u64, order: Ordering) -> bool {
        // `order`: see the table above. Relaxed on failure: nothing was taken.
        let exchanged = self
            .used
            .compare_exchange_weak(old, new, order, Ordering::Relaxed);
        exchanged.is_ok()
    }
}

impl<T: Send + Sync + 'static> Drop for WordLock<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Relaxed: no other thread writes the word of a block whose word lock is held.
        let used = self.block.used.load(Ordering::Relaxed);
        // Release: see the table above.
        self.block.used.store(used & !LOCKED, Ordering::Release);
    }
}
