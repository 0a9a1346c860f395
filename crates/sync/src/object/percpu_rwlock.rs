//! Many may be inside, or one keeps all of them out.

use std::marker::PhantomData;
use std::panic::Location;

use super::lifecycle::{READERS, SLOTS};
use crate::lock::Class;
use crate::percpu::PerCpuCounters;
use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{Backoff, WordLock, const_unless_loom, dekker};
use crate::profile::{self, Key, Side};

/// A gate of class `C` that many pass without sharing a line, until one closes it.
///
/// Those inside are counted on lane 1 of the object's [`PerCpuCounters`], so every call takes the spread
/// of the object that the gate stands in. The protocol is that of the references ("dead, then
/// undo") without an end: enter adds 1 and looks whether the gate is open; if not it takes the 1
/// back from the same word and waits. Close shuts the gate and then waits, word by word, until
/// everybody who came before has left.
///
/// | access | ordering | partner |
/// |---|---|---|
/// | enter: add to the word, then load `writer` | SeqCst | close: see `dekker` |
/// | close: set `writer`, then load every word | SeqCst | enter: see `dekker` |
/// | leave: subtract from the word | Release | close's loads |
/// | open: `writer` | Release | enter's load: what was done behind the gate is seen |
///
/// Close looks at the words and writes none, and they lie apart from those of the references: a
/// truncate does not disturb who opens or closes the file meanwhile.
pub struct PerCpuRwLock<C> {
    /// True while somebody closes the gate or has it closed. Written by the holder of `writer_lock`.
    writer: AtomicBool,
    /// ObjRef by whoever has the gate closed; those who wait for it to open park here.
    writer_lock: WordLock,
    class: PhantomData<fn() -> C>,
}

/// Proof of being inside; leaves when dropped. Stays on its thread.
#[must_use = "the gate is left when this is dropped"]
pub struct ReadGuard<'a> {
    /// The very word that the entry was added to.
    word: &'a AtomicU64,
    /// The profile wants to know when it ends.
    timed: bool,
    thread: PhantomData<*const ()>,
}

/// Proof that nobody is inside; opens the gate when dropped. Stays on its thread.
#[must_use = "the gate opens when this is dropped"]
pub struct WriteGuard<'a> {
    writer: &'a AtomicBool,
    writer_lock: &'a WordLock,
    thread: PhantomData<*const ()>,
}

impl<C: Class> PerCpuRwLock<C> {
    const_unless_loom! {
        /// An open gate.
        pub fn new() -> PerCpuRwLock<C> {
            PerCpuRwLock {
                writer: AtomicBool::new(false),
                writer_lock: WordLock::new(),
                class: PhantomData,
            }
        }
    }

    /// Enters; waits while the gate is closed.
    #[inline(always)]
    #[track_caller]
    pub fn read<'a>(&'a self, percpu: &'a PerCpuCounters<SLOTS>) -> ReadGuard<'a> {
        let word = add_reader(percpu);
        // SeqCst: see the table above.
        let writer = self.writer.load(Ordering::SeqCst);
        if writer || profile::is_on() && !profile::try_unsampled(|| true) {
            return self.read_slow(word, percpu, Location::caller());
        }
        ReadGuard {
            word,
            timed: false,
            thread: PhantomData,
        }
    }

    /// Enters unless the gate is closed.
    #[track_caller]
    pub fn try_read<'a>(&'a self, percpu: &'a PerCpuCounters<SLOTS>) -> Option<ReadGuard<'a>> {
        let word = add_reader(percpu);
        // SeqCst: see the table above.
        if !self.writer.load(Ordering::SeqCst) {
            return Some(Self::guard(word, None, Location::caller()));
        }
        // Release: as who leaves.
        word.fetch_sub(1, Ordering::Release);
        if profile::is_on() {
            profile::refused(&Self::key(Side::Read, Location::caller()));
        }
        None
    }

    /// Closes the gate: waits for another closer, then for everybody inside.
    ///
    /// Who is inside must not close: it would wait for itself.
    #[track_caller]
    pub fn write<'a>(&'a self, percpu: &'a PerCpuCounters<SLOTS>) -> WriteGuard<'a> {
        let mut since = None;
        let mut waits = || since = since.or_else(|| profile::is_on().then(profile::now));
        if !self.writer_lock.try_lock() {
            waits();
            self.writer_lock.lock();
        }
        // From here on a newcomer turns back, or is seen below.
        dekker::set(&self.writer);
        let guard = WriteGuard {
            writer: &self.writer,
            writer_lock: &self.writer_lock,
            thread: PhantomData,
        };
        for word in percpu.settled_words(READERS) {
            // SeqCst: see the table above; it is an Acquire for those who left.
            let mut readers = word.load(Ordering::SeqCst);
            let backoff = Backoff::new();
            while readers != 0 {
                waits();
                backoff.snooze();
                // Acquire: pairs with the Release of those who leave.
                readers = word.load(Ordering::Acquire);
            }
        }
        if profile::is_on() {
            let key = Self::key(Side::Write, Location::caller());
            self.record_write(&key, since);
        }
        guard
    }

    /// Goes on with an entry that is counted in `word`: while the gate is shut, takes it back and
    /// waits in the queue of the closers, parked; then tells the profile.
    #[cold]
    #[inline(never)]
    fn read_slow<'a>(
        &'a self,
        mut word: &'a AtomicU64,
        percpu: &'a PerCpuCounters<SLOTS>,
        site: &'static Location<'static>,
    ) -> ReadGuard<'a> {
        let mut since = None;
        // SeqCst: see the table above.
        while self.writer.load(Ordering::SeqCst) {
            since = since.or_else(|| profile::is_on().then(profile::now));
            // Release: as who leaves.
            word.fetch_sub(1, Ordering::Release);
            self.writer_lock.lock();
            self.writer_lock.unlock(|| {});
            word = add_reader(percpu);
        }
        Self::guard(word, since, site)
    }

    /// An entry that is counted in `word`, told to the profile.
    fn guard<'a>(
        word: &'a AtomicU64,
        since: Option<u64>,
        site: &'static Location<'static>,
    ) -> ReadGuard<'a> {
        let (key, address) = (|| Self::key(Side::Read, site), address(word));
        let timed = match since {
            Some(since) => profile::waited(address, &key(), false, since),
            None => profile::is_on() && profile::taken(address, key, false),
        };
        ReadGuard {
            word,
            timed,
            thread: PhantomData,
        }
    }

    fn record_write(&self, key: &Key, since: Option<u64>) {
        let (address, bounced) = (address(&self.writer_lock), self.writer_lock.last().note());
        let timed = match since {
            Some(since) => profile::waited(address, key, bounced, since),
            None => profile::taken(address, || *key, bounced),
        };
        if timed {
            self.writer_lock.set_timed();
        }
    }

    fn key(side: Side, site: &'static Location<'static>) -> Key {
        let class = C::NAME;
        Key { class, side, site }
    }
}

impl<C: Class> Default for PerCpuRwLock<C> {
    fn default() -> PerCpuRwLock<C> {
        PerCpuRwLock::new()
    }
}

impl<C: Class> std::fmt::Debug for PerCpuRwLock<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: printed only.
        f.debug_struct(C::NAME)
            .field("writer", &self.writer.load(Ordering::Relaxed))
            .finish()
    }
}

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.timed {
            profile::released(address(self.word));
        }
        // Release: see the table above.
        self.word.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        // Release: see the table above. The lock is given up after.
        self.writer.store(false, Ordering::Release);
        self.writer_lock
            .unlock(|| profile::released(address(self.writer_lock)));
    }
}

/// Counts an entry; the word that it must be taken back from.
#[inline(always)]
fn add_reader(percpu: &PerCpuCounters<SLOTS>) -> &AtomicU64 {
    let word = percpu.local_word(READERS);
    dekker::add(word, 1);
    word
}

/// What a timed hold is found by.
fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}
