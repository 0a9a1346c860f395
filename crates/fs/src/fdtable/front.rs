//! The first block of a table that hands out the lowest descriptor: the 63 that nearly every
//! program gets by with, handed out and taken back by writes of one word.
//!
//! A place is claimed by an exchange of the word with its lowest clear bit set, so it is the lowest
//! at that moment. Whatever is more than one write (a close empties the slot and clears the bit, a
//! fork looks at all) is done by who holds the *gate*, a bit of the same word: no exchange succeeds
//! meanwhile. `docs/design/fdtable.md` says why the order of all is that of one table.
//!
//! | access | ordering | partner |
//! |---|---|---|
//! | claim | Acquire | the Release of who freed the place: its slot is empty |
//! | free a reserved place | Release | the next claim |
//! | take the gate | Acquire | the Release of the holder before, and of who freed a place |
//! | give the gate back | Release | the next claim, the next holder |

use hearth_sync::primitive::Backoff;
use hearth_sync::primitive::atomic::Ordering;

use super::block::{Block, lowest_clear};

/// The bit of the place that is no descriptor.
const GATE: u64 = 1;
/// How often who may sleep elsewhere looks at a gate that is closed.
const LOOKS: u32 = if cfg!(feature = "shuttle") { 1 } else { 11 };

/// The gate is held for longer than it is worth to look.
#[derive(Debug)]
pub(super) struct Busy;

/// The gate of a block is held. Whoever has this may change it: see [`Block::change`].
pub(super) struct Gate<'b, T: Send + Sync + 'static> {
    block: &'b Block<T>,
}

impl<T: Send + Sync + 'static> Block<T> {
    /// Shuts the gate for good, in a table of which nobody knows yet: per-core, places are handed
    /// out under the block's own lock, and the one that is no descriptor is never free.
    pub(super) fn shut(&self) {
        // Relaxed: who learns of the table learns of it after this.
        self.used.store(GATE, Ordering::Relaxed);
    }

    /// Takes the lowest free place in `from..end`, if there is one; `from` is not 0. Nothing is
    /// said while the gate is closed, not that there is none either: a slot may be empty already.
    #[inline]
    pub(super) fn claim(&self, from: u32, end: u32) -> Result<Option<u32>, Busy> {
        let backoff = Backoff::new();
        let mut looks = 0;
        loop {
            // Relaxed: the exchange decides; and who has seen a slot empty sees here that its bit
            // is clear or that the gate is still closed, for the slot was loaded with Acquire.
            let used = self.used.load(Ordering::Relaxed);
            if used & GATE != 0 {
                looks += 1;
                if looks > LOOKS {
                    return Err(Busy);
                }
                backoff.snooze();
                continue;
            }
            let Some(bit) = lowest_clear(used, from, end) else {
                return Ok(None);
            };
            if self.exchange(used, used | 1 << bit, Ordering::Acquire) {
                return Ok(Some(bit));
            }
            backoff.spin();
        }
    }

    /// Frees a place whose slot is empty; only the holder of the reservation may.
    pub(super) fn free(&self, bit: u32) -> Result<(), Busy> {
        let backoff = Backoff::new();
        for _ in 0..LOOKS {
            // Relaxed: the exchange decides.
            let used = self.used.load(Ordering::Relaxed);
            let is_open = used & GATE == 0;
            if is_open && self.exchange(used, used & !(1 << bit), Ordering::Release) {
                return Ok(());
            }
            backoff.snooze();
        }
        Err(Busy)
    }

    /// Takes the gate, unless it is held for long.
    #[inline]
    pub(super) fn try_gate(&self) -> Result<Gate<'_, T>, Busy> {
        let backoff = Backoff::new();
        for _ in 0..LOOKS {
            // Relaxed: the exchange decides.
            let used = self.used.load(Ordering::Relaxed);
            if used & GATE == 0 && self.exchange(used, used | GATE, Ordering::Acquire) {
                return Ok(Gate { block: self });
            }
            backoff.snooze();
        }
        Err(Busy)
    }

    /// Takes the gate.
    pub(super) fn gate(&self) -> Gate<'_, T> {
        loop {
            if let Ok(gate) = self.try_gate() {
                return gate;
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

impl<T: Send + Sync + 'static> Drop for Gate<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Relaxed: nobody else writes the word of a block whose gate is held.
        let used = self.block.used.load(Ordering::Relaxed);
        // Release: see the table above.
        self.block.used.store(used & !GATE, Ordering::Release);
    }
}
