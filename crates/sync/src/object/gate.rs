//! Many may be inside, or one keeps all of them out.

use std::marker::PhantomData;
use std::panic::Location;

use super::refs::{ENTRIES, LANES};
use crate::lock::Class;
use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{Backoff, WordLock, const_unless_loom, fenced};
use crate::profile::{self, Key, Side};
use crate::spread::Spread;

/// A gate of class `C` that many pass without sharing a line, until one closes it.
///
/// Those inside are counted on lane 1 of the object's [`Spread`], so every call takes the spread
/// of the object that the gate stands in. The protocol is that of the references ("dead, then
/// undo") without an end: enter adds 1 and looks whether the gate is open; if not it takes the 1
/// back from the same word and waits. Close shuts the gate and then waits, word by word, until
/// everybody who came before has left.
///
/// | access | ordering | partner |
/// |---|---|---|
/// | enter: add to the word, then load `shut` | SeqCst | close: see `fenced` |
/// | close: set `shut`, then load every word | SeqCst | enter: see `fenced` |
/// | leave: subtract from the word | Release | close's loads |
/// | open: `shut` | Release | enter's load: what was done behind the gate is seen |
///
/// Close looks at the words and writes none, and they lie apart from those of the references: a
/// truncate does not disturb who opens or closes the file meanwhile.
pub struct Gate<C> {
    /// True while somebody closes the gate or has it closed. Written by the holder of `closer`.
    shut: AtomicBool,
    /// Held by whoever has the gate closed; those who wait for it to open park here.
    closer: WordLock,
    class: PhantomData<fn() -> C>,
}

/// Proof of being inside; leaves when dropped. Stays on its thread.
#[must_use = "the gate is left when this is dropped"]
pub struct GateEntry<'a> {
    /// The very word that the entry was added to.
    word: &'a AtomicU64,
    /// The profile wants to know when it ends.
    timed: bool,
    thread: PhantomData<*const ()>,
}

/// Proof that nobody is inside; opens the gate when dropped. Stays on its thread.
#[must_use = "the gate opens when this is dropped"]
pub struct GateClosed<'a> {
    shut: &'a AtomicBool,
    closer: &'a WordLock,
    thread: PhantomData<*const ()>,
}

impl<C: Class> Gate<C> {
    const_unless_loom! {
        /// An open gate.
        pub fn new() -> Gate<C> {
            Gate {
                shut: AtomicBool::new(false),
                closer: WordLock::new(),
                class: PhantomData,
            }
        }
    }

    /// Enters; waits while the gate is closed.
    #[inline(always)]
    #[track_caller]
    pub fn enter<'a>(&'a self, shares: &'a Spread<LANES>) -> GateEntry<'a> {
        let word = count_in(shares);
        // SeqCst: see the table above.
        let shut = self.shut.load(Ordering::SeqCst);
        if shut || profile::watched() && !profile::pass(|| true) {
            return self.enter_slow(word, shares, Location::caller());
        }
        GateEntry {
            word,
            timed: false,
            thread: PhantomData,
        }
    }

    /// Enters unless the gate is closed.
    #[track_caller]
    pub fn try_enter<'a>(&'a self, shares: &'a Spread<LANES>) -> Option<GateEntry<'a>> {
        let word = count_in(shares);
        // SeqCst: see the table above.
        if !self.shut.load(Ordering::SeqCst) {
            return Some(Self::entry(word, None, Location::caller()));
        }
        // Release: as who leaves.
        word.fetch_sub(1, Ordering::Release);
        if profile::watched() {
            profile::refused(&Self::key(Side::Read, Location::caller()));
        }
        None
    }

    /// Closes the gate: waits for another closer, then for everybody inside.
    ///
    /// Who is inside must not close: it would wait for itself.
    #[track_caller]
    pub fn close<'a>(&'a self, shares: &'a Spread<LANES>) -> GateClosed<'a> {
        let mut since = None;
        let mut waits = || since = since.or_else(|| profile::watched().then(profile::now));
        if !self.closer.try_lock() {
            waits();
            self.closer.lock();
        }
        // From here on a newcomer turns back, or is seen below.
        fenced::set(&self.shut);
        let closed = GateClosed {
            shut: &self.shut,
            closer: &self.closer,
            thread: PhantomData,
        };
        for word in shares.settled_cells(ENTRIES) {
            // SeqCst: see the table above; it is an Acquire for those who left.
            let mut inside = word.load(Ordering::SeqCst);
            let backoff = Backoff::new();
            while inside != 0 {
                waits();
                backoff.snooze();
                // Acquire: pairs with the Release of those who leave.
                inside = word.load(Ordering::Acquire);
            }
        }
        if profile::watched() {
            let key = Self::key(Side::Write, Location::caller());
            self.record_closed(&key, since);
        }
        closed
    }

    /// Goes on with an entry that is counted in `word`: while the gate is shut, takes it back and
    /// waits in the queue of the closers, parked; then tells the profile.
    #[cold]
    #[inline(never)]
    fn enter_slow<'a>(
        &'a self,
        mut word: &'a AtomicU64,
        shares: &'a Spread<LANES>,
        site: &'static Location<'static>,
    ) -> GateEntry<'a> {
        let mut since = None;
        // SeqCst: see the table above.
        while self.shut.load(Ordering::SeqCst) {
            since = since.or_else(|| profile::watched().then(profile::now));
            // Release: as who leaves.
            word.fetch_sub(1, Ordering::Release);
            self.closer.lock();
            self.closer.unlock(|| {});
            word = count_in(shares);
        }
        Self::entry(word, since, site)
    }

    /// An entry that is counted in `word`, told to the profile.
    fn entry<'a>(
        word: &'a AtomicU64,
        since: Option<u64>,
        site: &'static Location<'static>,
    ) -> GateEntry<'a> {
        let (key, address) = (|| Self::key(Side::Read, site), address(word));
        let timed = match since {
            Some(since) => profile::waited(address, &key(), false, since),
            None => profile::watched() && profile::taken(address, key, false),
        };
        GateEntry {
            word,
            timed,
            thread: PhantomData,
        }
    }

    fn record_closed(&self, key: &Key, since: Option<u64>) {
        let (address, bounced) = (address(&self.closer), self.closer.last().note());
        let timed = match since {
            Some(since) => profile::waited(address, key, bounced, since),
            None => profile::taken(address, || *key, bounced),
        };
        if timed {
            self.closer.set_timed();
        }
    }

    fn key(side: Side, site: &'static Location<'static>) -> Key {
        let class = C::NAME;
        Key { class, side, site }
    }
}

impl<C: Class> Default for Gate<C> {
    fn default() -> Gate<C> {
        Gate::new()
    }
}

impl<C: Class> std::fmt::Debug for Gate<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: printed only.
        f.debug_struct(C::NAME)
            .field("shut", &self.shut.load(Ordering::Relaxed))
            .finish()
    }
}

impl Drop for GateEntry<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.timed {
            profile::released(address(self.word));
        }
        // Release: see the table above.
        self.word.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for GateClosed<'_> {
    fn drop(&mut self) {
        // Release: see the table above. The lock is given up after.
        self.shut.store(false, Ordering::Release);
        self.closer
            .unlock(|| profile::released(address(self.closer)));
    }
}

/// Counts an entry; the word that it must be taken back from.
#[inline(always)]
fn count_in(shares: &Spread<LANES>) -> &AtomicU64 {
    let word = shares.cell(ENTRIES);
    fenced::add(word, 1);
    word
}

/// What a timed hold is found by.
fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}
