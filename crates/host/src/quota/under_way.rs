//! Operations on names that are under way: what they read of projects holds until they end, so a
//! change of a tree's project waits for them.

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::thread;
use std::time::{Duration, Instant};

lock_class!(UnderWayLock = "host.under-way", 819);

/// A server below that does not answer keeps an operation for ever, and nobody else by that.
const MOST: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// Counts of operations that have begun and not ended.
#[derive(Debug)]
pub struct UnderWay {
    /// Each operation is counted in one of these, from its beginning to its end.
    parts: PerCpu<Lock<UnderWayLock, Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Which of `begun` counts those that begin now.
    now: usize,
    begun: [u64; 2],
}

/// An operation that is under way until this is dropped.
#[must_use]
pub struct Operation<'a> {
    part: &'a Lock<UnderWayLock, Counts>,
    counted: usize,
}

impl Default for UnderWay {
    fn default() -> UnderWay {
        UnderWay {
            parts: PerCpu::new(|_| Lock::default()),
        }
    }
}

impl UnderWay {
    /// An operation begins.
    pub fn begin(&self) -> Operation<'_> {
        let part = self.parts.get();
        let mut counts = part.lock();
        let counted = counts.now;
        counts.begun[counted] += 1;
        drop(counts);
        Operation { part, counted }
    }

    /// Waits for those that have begun, and not for those that begin meanwhile. One waits at a
    /// time.
    pub fn wait(&self) {
        let end = Instant::now() + MOST;
        let before: Vec<_> = self.parts.iter().map(|part| (part, turn(part))).collect();
        for (part, counted) in before {
            while part.lock().begun[counted] > 0 && Instant::now() < end {
                thread::sleep(LOOK);
            }
        }
    }
}

/// From now on others are counted; which ones have been until now.
fn turn(part: &Lock<UnderWayLock, Counts>) -> usize {
    let mut counts = part.lock();
    let before = counts.now;
    counts.now = 1 - before;
    before
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.part.lock().begun[self.counted] -= 1;
    }
}
