//! Sweeps: which objects reclaim tries to evict, a step at a time.
//!
//! A sweep walks the inode table by number from where the last one stopped, so it shares no list
//! and no lock with lookups (C9).
//!
//! Where new files come all the time, their numbers come before it without an end: it follows them
//! and never begins anew. So one step in [`AGAIN`] looks once more at what it has passed: at inodes
//! that were in use or unwritten then, and at blocks of the table that had an inode in them which
//! was evicted a moment before. Otherwise each of those would keep its memory for ever.

use crate::log::GapWait;
use crate::superblock::Superblock;
use hearth_sync::epoch::{self, pin};
use hearth_sync::primitive::atomic::AtomicU64;
use hearth_sync::primitive::atomic::Ordering::Relaxed;

/// The number of inodes that one step looks at before it unpins the epoch.
const STEP: usize = 64;
/// How many numbers behind a sweep the memory of those that have no inode is given back: most of
/// what was evicted is seen by nobody by then.
const BEHIND: u64 = 16 << 10;
/// One step in so many looks at what the sweep has passed.
const AGAIN: u64 = 16;

/// What a step of a sweep did.
pub(crate) struct Swept {
    /// Bytes freed.
    pub freed: u64,
    /// Whether the step reached the end of the table.
    pub wrapped: bool,
    /// Whether the backend took what it lacked, and a file was changed again before it could be
    /// evicted: it is not in use, and a later step wins it.
    pub is_overtaken: bool,
    /// Inodes that front ends have looked up.
    pub known: Vec<u64>,
}

/// The inodes of one step.
struct SweepStep {
    /// Numbers of inodes, rising.
    inodes: Vec<u64>,
    /// The number from which on they were looked for, and the one behind the last that was.
    from: u64,
    end: u64,
}

impl Superblock {
    /// One step of a sweep: goes on from where the last one stopped, until `bytes` are freed.
    pub(crate) fn sweep(&self, bytes: u64) -> Swept {
        let sweeps = &self.cache.sweeps.0;
        // Relaxed: counted to choose, and whichever step it is finds work.
        let step = sweeps.steps.fetch_add(1, Relaxed);
        if step % AGAIN == AGAIN - 1 {
            // Relaxed: a place to go on from; two sweeps at one place do no harm.
            let end = sweeps.next.load(Relaxed);
            let mut swept = self.sweep_from(&sweeps.again, end, 0, bytes);
            // The end of what was passed is not that of the table, and front ends were asked to
            // forget these inodes when it was passed.
            swept.wrapped = false;
            swept.known.clear();
            return swept;
        }
        self.sweep_from(&sweeps.next, u64::MAX, BEHIND, bytes)
    }

    /// A step from `place` on, below `end`. Memory is given back from `behind` numbers before it.
    fn sweep_from(&self, place: &AtomicU64, end: u64, behind: u64, bytes: u64) -> Swept {
        let span = self.next_step(place, end);
        let wrapped = span.end == end;
        let next = if wrapped { 0 } else { span.end };
        // Relaxed: as in `sweep`.
        place.store(next, Relaxed);
        // With no epoch pinned. What is written or changed from here on stays in memory.
        let is_settled = self.settle(&span.inodes);
        let (mut freed, mut is_overtaken) = (0, false);
        let mut known = Vec::new();
        let mut stopped = None;
        for ino in span.inodes {
            if freed >= bytes {
                stopped = Some(ino);
                break;
            }
            let g = pin();
            if let Some(inode) = self.objects.inodes.get(ino, &g) {
                freed += self.evict(inode, bytes - freed, &g);
                is_overtaken |= is_settled && freed < bytes && self.is_unsettled_file(inode);
                if inode.raw_counts() > 0 {
                    known.push(ino);
                }
            }
        }
        // Relaxed: see `reclaim`.
        self.cache.sweeps.0.freed.fetch_add(freed, Relaxed);
        if let Some(ino) = stopped {
            // The next step goes on here, unless another one has begun: what stays would keep the
            // memory of the numbers around it.
            let _ = place.compare_exchange(next, ino, Relaxed, Relaxed);
        }
        // What was evicted a while ago lies in blocks of numbers that have no inode by now.
        let numbers = span.from.saturating_sub(behind)..stopped.unwrap_or(span.end);
        self.objects.inodes.trim(numbers, &pin());
        Swept {
            freed,
            wrapped: wrapped && stopped.is_none(),
            is_overtaken,
            known,
        }
    }

    /// The next inodes from `place` on, below `end`.
    fn next_step(&self, place: &AtomicU64, end: u64) -> SweepStep {
        let g = pin();
        // Relaxed: as in `sweep`.
        let from = place.load(Relaxed);
        let mut inodes = Vec::with_capacity(STEP);
        self.objects.inodes.scan(from, &g, |inode| {
            let is_below = inode.number() < end;
            if is_below {
                inodes.push(inode.number());
            }
            is_below && inodes.len() < STEP
        });
        let end = match inodes.last() {
            Some(last) if inodes.len() == STEP => last + 1,
            _ => end,
        };
        SweepStep { inodes, from, end }
    }

    /// Asks front ends to forget inodes that they have looked up and nobody uses: until then their
    /// references keep these in memory. They do it in their own time.
    pub(crate) fn let_go(&self, known: &[u64]) {
        if known.is_empty() || epoch::is_pinned() {
            return;
        }
        for observer in self.observers() {
            observer.crowded(known);
        }
    }

    /// Gives the backend what it lacks of these inodes, and returns whether it has taken it. An
    /// error is left to the next sync: what the backend does not have stays in memory. Does nothing
    /// for a caller who is pinned, such as one inside a listing: a commit would wait for him.
    fn settle(&self, inodes: &[u64]) -> bool {
        let Some(log) = self.log().filter(|_| !epoch::is_pinned()) else {
            return false;
        };
        let mut is_pending = false;
        for &ino in inodes {
            let Some(inode) = self.objects.inodes.hold(ino, &pin()) else {
                continue;
            };
            let flushed = self.with_held(inode, |inode| {
                is_pending |= self.is_unsettled(inode) || inode.is_dir();
                self.flush(inode, GapWait::InFlight)
            });
            if flushed.is_err() {
                return false;
            }
        }
        !is_pending || self.commit_through(log.epoch()).is_ok()
    }
}
