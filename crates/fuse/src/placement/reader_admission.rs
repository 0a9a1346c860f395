//! Admission of readers to `read(2)` of `/dev/fuse`: those of CPUs that have clients.
//!
//! The kernel wakes the reader that waits longest, on whatever CPU. A reader without a client on
//! its CPU therefore waits here until one is seen there. See "Readers at `/dev/fuse`" in
//! `docs/design/fuse.md`.
//!
//! Lock order: the lock is a leaf, held for a few instructions.

use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long admission is kept for a client that is not seen any more, where there are several.
const KEPT: Duration = Duration::from_millis(40);
/// In the place of a thread: what was asked says nothing of where clients are.
const NOBODY: u32 = 0;
/// In the place of a thread: the kernel writes pages back. If it is all, somebody waits for it (the
/// close of a small file), and is seen by what he asks next.
const WRITER: u32 = u32::MAX - 1;
/// In the place of a thread: the kernel writes pages back, one request behind the other. Nobody
/// waits for one of them, and there is more.
const EVERYBODY: u32 = u32::MAX;

/// Which readers are admitted; one slot per reader, in the order of their CPUs.
pub(crate) struct ReaderAdmission {
    state: Lock<ReaderAdmissionLock, Readers>,
    readers: Box<[ReaderState]>,
    /// Readers in `read(2)`, or on the way there with nothing to wait for. Present where readers
    /// may block.
    reading: Option<AtomicUsize>,
    /// Readers in calls.
    calling: AtomicUsize,
    /// The affinity monitor sleeps until there are requests.
    rests: AtomicBool,
    /// `rests` was cleared, or the mount is gone.
    wake: Condition,
}

/// What one reader uses, on cache lines of its own.
#[repr(align(128))]
struct ReaderState {
    /// Requests in the upper half, the thread that sent the last one in the lower. Written by the
    /// reader alone.
    last: AtomicU64,
    /// A copy of [`ReaderSlot::is_taken`], which counts.
    is_admitted: AtomicBool,
    /// The reader got its admission back, or the mount is gone.
    changed: Condition,
}

lock_class!(ReaderAdmissionLock = "fuse.slots", 990);

struct Readers {
    slots: Box<[ReaderSlot]>,
    /// The mount is gone: nobody waits any more.
    is_closed: bool,
}

/// Written by the affinity monitor.
struct ReaderSlot {
    cpu: usize,
    is_taken: bool,
    /// When a client was seen on the CPU last.
    seen: Option<Instant>,
}

/// Where requests come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From a thread on this CPU.
    Cpu(usize),
    /// From nobody who can be found, or from nobody who waits.
    Anywhere,
}

/// What a reader had to do last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastRequest(u64);

impl ReaderAdmission {
    /// One reader for each of `cpus`, of which several may be the same. All are admitted.
    pub fn new(cpus: &[usize]) -> ReaderAdmission {
        let slot = |&cpu| ReaderSlot {
            cpu,
            is_taken: true,
            seen: None,
        };
        let reader = |_| ReaderState {
            last: AtomicU64::new(0),
            is_admitted: AtomicBool::new(true),
            changed: Condition::new(),
        };
        ReaderAdmission {
            state: Lock::new(Readers {
                slots: cpus.iter().map(slot).collect(),
                is_closed: false,
            }),
            readers: cpus.iter().map(reader).collect(),
            reading: None,
            calling: AtomicUsize::new(0),
            rests: AtomicBool::new(false),
            wake: Condition::new(),
        }
    }

    /// One reader for each of `cpus`, of which those may block that are not the last to read.
    pub fn of_callers(cpus: &[usize]) -> ReaderAdmission {
        ReaderAdmission {
            reading: Some(AtomicUsize::new(0)),
            ..ReaderAdmission::new(cpus)
        }
    }

    /// Reader `own` has a request of this thread. `is_written_back` if the kernel sent it by
    /// itself, and waits with more.
    pub fn serves(&self, own: usize, thread: u32, is_written_back: bool) {
        let last = &self.readers[own].last;
        // Relaxed: one word, by itself, that one thread writes and another looks at now and then.
        let before = last.load(Ordering::Relaxed);
        let thread = match (is_written_back, before as u32) {
            (true, WRITER | EVERYBODY) => EVERYBODY,
            (true, _) => WRITER,
            (false, _) => thread,
        };
        let count = (before >> 32) + 1;
        last.store(count << 32 | u64::from(thread), Ordering::Relaxed);
        // Relaxed: if this is missed, the next request wakes the affinity monitor.
        if self.rests.load(Ordering::Relaxed) {
            self.wake_monitor();
        }
    }

    /// Waits until reader `own` has admission, or the mount is gone, or all others may block. It
    /// reads from then on, until [`ReaderAdmission::has_read`].
    pub fn wait(&self, own: usize) {
        let reader = &self.readers[own];
        // Relaxed: a hint, after which the lock tells the truth. If it is old, the reader waits in
        // the kernel for one request more.
        if !reader.is_admitted.load(Ordering::Relaxed) {
            let mut state = self.state.lock();
            while !state.slots[own].is_taken && !state.is_closed && !self.is_unread() {
                state.wait(&reader.changed);
            }
        }
        if let Some(reading) = &self.reading {
            // Relaxed: only the number counts. Whoever takes it to zero reads next by itself.
            reading.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A reader has a request. True if another one reads meanwhile, so that this one may block: see
    /// "Which threads block" in `docs/design/host.md`.
    pub fn has_read(&self) -> bool {
        let reading = self.reading.as_ref();
        // Relaxed: as in `wait`.
        reading.is_some_and(|reading| reading.fetch_sub(1, Ordering::Relaxed) > 1)
    }

    /// Whether readers may block.
    pub fn has_callers(&self) -> bool {
        self.reading.is_some()
    }

    /// A reader makes a call until the guard is dropped. `None` if half of them do: the others read
    /// for everybody, however long those calls take.
    pub fn begin_call(&self) -> Option<ReaderCall<'_>> {
        // Relaxed: only the number counts.
        let before = self.calling.fetch_add(1, Ordering::Relaxed);
        let call = ReaderCall(self);
        (before < self.readers.len() / 2).then_some(call)
    }

    /// Whether readers may block and none reads.
    fn is_unread(&self) -> bool {
        let reading = self.reading.as_ref();
        reading.is_some_and(|reading| reading.load(Ordering::Relaxed) == 0)
    }

    /// What every reader had to do last, and for whom.
    pub fn last(&self) -> impl Iterator<Item = (LastRequest, Option<u32>)> + '_ {
        self.readers.iter().map(|reader| {
            // Relaxed: as in `serves`.
            let last = reader.last.load(Ordering::Relaxed);
            (
                LastRequest(last),
                Some(last as u32).filter(|&id| id != NOBODY && id != WRITER),
            )
        })
    }

    /// The affinity monitor saw where requests come from, all of one thread if that `is_alone`:
    /// decides who is admitted from now on, always at least one. Returns whether that is a change.
    pub fn saw(&self, origins: &[Origin], is_alone: bool, now: Instant) -> bool {
        if origins.is_empty() {
            return false;
        }
        // Where it was before it does not need a reader any more.
        let kept = if is_alone { Duration::ZERO } else { KEPT };
        let mut state = self.state.lock();
        let slots = &mut state.slots;
        for &origin in origins {
            let is_there = |slot: &ReaderSlot| origin == Origin::Cpu(slot.cpu);
            let has_none = !slots.iter().any(is_there);
            for slot in slots.iter_mut().filter(|slot| has_none || is_there(slot)) {
                slot.seen = Some(now);
            }
        }
        let mut is_change = false;
        for (slot, reader) in slots.iter_mut().zip(&self.readers) {
            let is_kept = |seen| seen == now || now.saturating_duration_since(seen) < kept;
            let is_taken = slot.seen.is_some_and(is_kept);
            if slot.is_taken == is_taken {
                continue;
            }
            slot.is_taken = is_taken;
            is_change = true;
            // Relaxed: see `wait`.
            reader.is_admitted.store(is_taken, Ordering::Relaxed);
            if is_taken {
                reader.changed.notify_one();
            }
        }
        is_change
    }

    /// The affinity monitor waits: for `limit`, or without one for the next request. False if the
    /// mount is gone.
    pub fn pause(&self, limit: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        match limit {
            Some(limit) if !state.is_closed => {
                state.wait_for(&self.wake, limit);
            }
            _ => {
                // Relaxed: cleared under the lock, and what it lets happen is under the lock.
                self.rests.store(true, Ordering::Relaxed);
                while self.rests.load(Ordering::Relaxed) && !state.is_closed {
                    state.wait(&self.wake);
                }
            }
        }
        !state.is_closed
    }

    /// The mount is gone.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_one();
        for reader in &self.readers {
            reader.changed.notify_one();
        }
    }

    #[cold]
    fn wake_monitor(&self) {
        let state = self.state.lock();
        // Relaxed: see `pause`.
        self.rests.store(false, Ordering::Relaxed);
        drop(state);
        self.wake.notify_one();
    }
}

/// A reader is in a call.
pub(crate) struct ReaderCall<'a>(&'a ReaderAdmission);

impl Drop for ReaderCall<'_> {
    fn drop(&mut self) {
        // Relaxed: as in `begin_call`.
        self.0.calling.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LastRequest {
    /// Whether no client waits for the request.
    pub fn is_for_everybody(id: u32) -> bool {
        id == EVERYBODY
    }
}

#[cfg(test)]
#[path = "reader_admission_tests.rs"]
mod tests;
