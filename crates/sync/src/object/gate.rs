//! Many may be inside, or one keeps all of them out.

use super::refs::{ENTRIES, LANES};
use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{Backoff, RawGuard, RawLock, const_unless_loom};
use crate::spread::Spread;

/// A gate that many pass without sharing a line, until one closes it.
///
/// Those inside are counted on lane 1 of the object's [`Spread`], so every call takes the spread
/// of the object that the gate stands in. The protocol is that of the references ("dead, then
/// undo") without an end: enter adds 1 and looks whether the gate is open; if not it takes the 1
/// back from the same word and waits. Close shuts the gate and then waits, word by word, until
/// everybody who came before has left.
///
/// | access | ordering | partner |
/// |---|---|---|
/// | enter: add to the word | Acquire | close's addition: later comers see it shut |
/// | enter: `shut` | Acquire | the Release when the gate opens: what was done behind it is seen |
/// | leave: subtract from the word | Release | close's addition and loads |
/// | close: add nothing to every word | AcqRel | enter and leave as above |
/// | open: `shut` | Release | enter's load |
pub struct Gate {
    /// True while somebody closes the gate or has it closed. Written by the holder of `closer`.
    shut: AtomicBool,
    /// Held by whoever has the gate closed; those who wait for it to open park here.
    closer: RawLock,
}

/// Proof of being inside; leaves when dropped.
#[must_use = "the gate is left when this is dropped"]
pub struct GateEntry<'a> {
    /// The very word that the entry was added to.
    word: &'a AtomicU64,
}

/// Proof that nobody is inside; opens the gate when dropped.
#[must_use = "the gate opens when this is dropped"]
pub struct GateClosed<'a> {
    gate: &'a Gate,
    _closer: RawGuard<'a>,
}

impl Gate {
    const_unless_loom! {
        /// An open gate.
        pub fn new() -> Gate {
            Gate { shut: AtomicBool::new(false), closer: RawLock::new() }
        }
    }

    /// Enters; waits while the gate is closed.
    #[inline]
    pub fn enter<'a>(&'a self, shares: &'a Spread<LANES>) -> GateEntry<'a> {
        match self.try_enter(shares) {
            Some(entry) => entry,
            None => self.enter_slow(shares),
        }
    }

    /// Enters unless the gate is closed.
    #[inline]
    pub fn try_enter<'a>(&'a self, shares: &'a Spread<LANES>) -> Option<GateEntry<'a>> {
        let word = shares.cell(ENTRIES);
        // Acquire: see the table above.
        word.fetch_add(1, Ordering::Acquire);
        // The entry takes its 1 back from the same word when it is dropped.
        let entry = GateEntry { word };
        // Acquire: see the table above.
        (!self.shut.load(Ordering::Acquire)).then_some(entry)
    }

    /// Closes the gate: waits for another closer, then for everybody inside.
    ///
    /// Who is inside must not close: it would wait for itself.
    pub fn close<'a>(&'a self, shares: &'a Spread<LANES>) -> GateClosed<'a> {
        let closer = self.closer.lock_guard();
        // Relaxed: published by the additions below.
        self.shut.store(true, Ordering::Relaxed);
        let closed = GateClosed {
            gate: self,
            _closer: closer,
        };
        for word in shares.settled_cells(ENTRIES) {
            // AcqRel: see the table above. From here on a newcomer on this word turns back.
            let mut inside = word.fetch_add(0, Ordering::AcqRel);
            let backoff = Backoff::new();
            while inside != 0 {
                backoff.snooze();
                // Acquire: pairs with the Release of those who leave.
                inside = word.load(Ordering::Acquire);
            }
        }
        closed
    }

    /// Waits in the queue of the closers, so that it parks while the gate stays closed.
    #[cold]
    fn enter_slow<'a>(&'a self, shares: &'a Spread<LANES>) -> GateEntry<'a> {
        loop {
            drop(self.closer.lock_guard());
            if let Some(entry) = self.try_enter(shares) {
                return entry;
            }
        }
    }
}

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: printed only.
        f.debug_struct("Gate")
            .field("shut", &self.shut.load(Ordering::Relaxed))
            .finish()
    }
}

impl Drop for GateEntry<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: see the table above.
        self.word.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for GateClosed<'_> {
    fn drop(&mut self) {
        // Release: see the table above. The lock is given up after.
        self.gate.shut.store(false, Ordering::Release);
    }
}
