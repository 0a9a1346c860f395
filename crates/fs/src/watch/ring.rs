//! The ring of the last changes of names, which exists while somebody listens.

use super::event::{NameEvent, NameEvents};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;

/// Events that are kept for those who have not read them.
pub const NAME_EVENTS_KEPT: usize = 16_384;

/// Events that are copied under one hold of the lock.
const COPIED: u64 = 256;

lock_class! {
    /// A leaf: whoever changes a name holds that name's bucket outside it.
    RingLock = "watch.ring", 988;
}

/// The changes of names of one volume.
pub(crate) struct NameRing {
    /// How many listen. Written under the lock of the ring. Relaxed: a change beside the beginning
    /// of a listener is in the stream or before it, and nobody can tell which is right.
    listeners: AtomicUsize,
    ring: Lock<RingLock, Ring>,
}

#[derive(Default)]
struct Ring {
    /// Oldest first; their numbers follow each other up to `sequence`.
    events: VecDeque<NameEvent>,
    /// Number of the latest event.
    sequence: u64,
}

impl NameRing {
    pub fn new() -> NameRing {
        NameRing {
            listeners: AtomicUsize::new(0),
            ring: Lock::new(Ring::default()),
        }
    }

    /// Whether somebody listens.
    #[inline]
    pub fn is_watched(&self) -> bool {
        // Relaxed: see `listeners`.
        self.listeners.load(Ordering::Relaxed) > 0
    }

    /// Numbers an event and adds it. What it makes the ring drop is freed after the lock.
    #[cold]
    pub fn tell(&self, mut event: NameEvent) {
        let _dropped = {
            let mut ring = self.ring.lock();
            if !self.is_watched() {
                // The last listener has gone since the caller looked, and took the ring along.
                return;
            }
            ring.sequence += 1;
            event.sequence = ring.sequence;
            let is_full = ring.events.len() == NAME_EVENTS_KEPT;
            let oldest = is_full.then(|| ring.events.pop_front());
            ring.events.push_back(event);
            oldest
        };
    }

    /// Begins to listen; returns the number of the latest event.
    pub fn listen(&self) -> u64 {
        let ring = self.ring.lock();
        // Relaxed: see `listeners`.
        self.listeners.fetch_add(1, Ordering::Relaxed);
        ring.sequence
    }

    /// Ends to listen. The last one frees the ring.
    pub fn leave(&self) {
        let _freed = {
            let mut ring = self.ring.lock();
            // Relaxed: see `listeners`.
            match self.listeners.fetch_sub(1, Ordering::Relaxed) {
                1 => std::mem::take(&mut ring.events),
                _ => VecDeque::new(),
            }
        };
    }

    /// How many events are kept.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.ring.lock().events.len()
    }

    /// What came after `cursor`, which is moved behind the last event that is returned.
    pub fn read(&self, cursor: &mut u64) -> NameEvents {
        let (mut lost, mut events, mut end) = (0, Vec::new(), None);
        loop {
            // Only a part at a time, into room that is there: who changes names waits for this
            // lock.
            events.reserve(COPIED as usize);
            let ring = self.ring.lock();
            let end = *end.get_or_insert(ring.sequence);
            let first = ring.sequence - ring.events.len() as u64 + 1;
            let from = (*cursor + 1).max(first);
            let gap = from - *cursor - 1;
            // What was lost behind the first part is told by the next call, where it belongs.
            if *cursor == end || gap > 0 && !events.is_empty() {
                return NameEvents { lost, events };
            }
            lost += gap;
            let to = ring.sequence.min(from + COPIED - 1);
            let part = (from - first) as usize..(to + 1 - first) as usize;
            events.extend(ring.events.range(part).cloned());
            *cursor = to;
            if to >= end {
                return NameEvents { lost, events };
            }
        }
    }
}
