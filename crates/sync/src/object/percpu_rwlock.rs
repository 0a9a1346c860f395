//! A per-CPU reader/writer lock: readers of different cores write different cache lines.

use std::marker::PhantomData;
use std::panic::Location;

use super::lifecycle::{READERS, SLOTS};
use crate::lock::Class;
use crate::percpu::PerCpuCounters;
use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{Backoff, WordLock, const_unless_loom, dekker};
use crate::profile::{self, Key, Side};

/// A per-CPU reader/writer lock of class `C`, without a value of its own.
///
/// Readers are counted in slot 1 of the [`PerCpuCounters`] of the object that the lock stands in,
/// so every call takes these counters. The protocol is that of the references ("dead, then undo")
/// without an end. A reader adds 1 to its core's counter and then looks for a writer; if there is
/// one, it takes the 1 back from the same counter and waits. A writer sets `writer` and then waits,
/// counter by counter, until every earlier reader has left.
///
/// | access | ordering | partner |
/// |---|---|---|
/// | read: add to the counter, then load `writer` | SeqCst | write: see `dekker` |
/// | write: set `writer`, then load every counter | SeqCst | read: see `dekker` |
/// | read unlock: subtract from the counter | Release | the writer's loads |
/// | write unlock: clear `writer` | Release | the reader's load: it sees what the writer did |
///
/// A writer loads the counters and writes none of them. They lie apart from the reference counts,
/// so a truncate does not disturb threads that open or close the file meanwhile.
pub struct PerCpuRwLock<C> {
    /// True while a writer waits or holds the lock. Written by the holder of `writer_lock`.
    writer: AtomicBool,
    /// Held by the writer; waiting readers and writers park here.
    writer_lock: WordLock,
    class: PhantomData<fn() -> C>,
}

/// Proof that the lock is held for reading; released on drop. Stays on its thread.
#[must_use = "the lock is released when this is dropped"]
pub struct ReadGuard<'a> {
    /// The counter that this reader was added to.
    word: &'a AtomicU64,
    /// The profile times this hold.
    timed: bool,
    thread: PhantomData<*const ()>,
}

/// Proof that the lock is held for writing; released on drop. Stays on its thread.
#[must_use = "the lock is released when this is dropped"]
pub struct WriteGuard<'a> {
    writer: &'a AtomicBool,
    writer_lock: &'a WordLock,
    thread: PhantomData<*const ()>,
}

impl<C: Class> PerCpuRwLock<C> {
    const_unless_loom! {
        /// An unlocked lock.
        pub fn new() -> PerCpuRwLock<C> {
            PerCpuRwLock {
                writer: AtomicBool::new(false),
                writer_lock: WordLock::new(),
                class: PhantomData,
            }
        }
    }

    /// Takes the lock for reading; waits for a writer.
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

    /// Takes the lock for reading unless there is a writer.
    #[track_caller]
    pub fn try_read<'a>(&'a self, percpu: &'a PerCpuCounters<SLOTS>) -> Option<ReadGuard<'a>> {
        let word = add_reader(percpu);
        // SeqCst: see the table above.
        if !self.writer.load(Ordering::SeqCst) {
            return Some(Self::guard(word, None, Location::caller()));
        }
        // Release: as a reader that leaves.
        word.fetch_sub(1, Ordering::Release);
        if profile::is_on() {
            profile::refused(&Self::key(Side::Read, Location::caller()));
        }
        None
    }

    /// Takes the lock for writing: waits for another writer, then for all readers.
    ///
    /// A thread that holds a read guard must not call this: it would wait for itself.
    #[track_caller]
    pub fn write<'a>(&'a self, percpu: &'a PerCpuCounters<SLOTS>) -> WriteGuard<'a> {
        let mut since = None;
        let mut waits = || since = since.or_else(|| profile::is_on().then(profile::now));
        if !self.writer_lock.try_lock() {
            waits();
            self.writer_lock.lock();
        }
        // From here on a new reader either sees `writer` and turns back, or is counted below.
        dekker::set(&self.writer);
        let guard = WriteGuard {
            writer: &self.writer,
            writer_lock: &self.writer_lock,
            thread: PhantomData,
        };
        for word in percpu.settled_words(READERS) {
            // SeqCst: see the table above. It is also an Acquire for readers that have left.
            let mut readers = word.load(Ordering::SeqCst);
            let backoff = Backoff::new();
            while readers != 0 {
                waits();
                backoff.snooze();
                // Acquire: pairs with the Release of the leaving readers.
                readers = word.load(Ordering::Acquire);
            }
        }
        if profile::is_on() {
            let key = Self::key(Side::Write, Location::caller());
            self.record_write(&key, since);
        }
        guard
    }

    /// The slow path of a reader that is counted in `word`. While there is a writer, takes the
    /// count back and parks in the queue of the writers. Then records the wait in the profile.
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
            // Release: as a reader that leaves.
            word.fetch_sub(1, Ordering::Release);
            self.writer_lock.lock();
            self.writer_lock.unlock(|| {});
            word = add_reader(percpu);
        }
        Self::guard(word, since, site)
    }

    /// A read guard for the count in `word`, recorded in the profile.
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
        let (address, bounced) = (address(&self.writer_lock), self.writer_lock.last().update());
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
        // Release: see the table above. `writer_lock` is released after it.
        self.writer.store(false, Ordering::Release);
        self.writer_lock
            .unlock(|| profile::released(address(self.writer_lock)));
    }
}

/// Counts a reader; returns the counter that the count must be taken back from.
#[inline(always)]
fn add_reader(percpu: &PerCpuCounters<SLOTS>) -> &AtomicU64 {
    let word = percpu.local_word(READERS);
    dekker::add(word, 1);
    word
}

/// The key of a timed hold.
fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}
