//! The lifecycle of an object, and the per-CPU reference counts that decide it.
//!
//! References are the sum of one slot over all per-CPU parts of the object's counters, which no
//! single read can see. The protocol that finds zero all the same is "dead, then undo":
//!
//! ```text
//!           begin_evict                    no reference left
//!   LIVE ------------------> DYING ------------------------------> DEAD (for ever)
//!     ^                        |
//!     +------------------------+  a reference was found: undone
//! ```
//!
//! * **try_get** adds 1 to its core's counter and then loads the state. LIVE: the reference stands.
//!   Otherwise it takes the 1 back *from the very same counter*, waits while DYING, and tries again
//!   unless DEAD. A holder that wants a second reference gets it in the same way.
//! * **put** subtracts 1 from its core's counter, whichever that is by now.
//! * **try_evict** changes LIVE to DYING (one evictor at a time), sums all counters, and changes
//!   DYING to DEAD if the sum is zero, back to LIVE if not.
//!
//! Why zero means zero. Getter and evictor both write and then load what the other writes, in the
//! single total order of all such accesses ([`dekker`]). A getter whose addition the evictor does
//! not find comes after the evictor's DYING and sees it; it takes back what it added and never
//! stood. A getter whose addition is found is in the sum. So the sum contains every standing
//! reference. It may lack puts, and it may contain additions that will be taken back. These come
//! off the same counter, so a counter read without the addition is never read with the taking back.
//! The sum is never below the number of references.
//!
//! The evictor writes the state and none of the counters. Once the counters are per-CPU, a thread
//! that only counts, or takes the rwlock that is counted beside, is not disturbed when a name of an
//! open file is removed. Before that, the evictor settles, on the cache line of the counters, that
//! there are no per-CPU parts.
//!
//! Handles and bare counts have a slot each. **handle_to_count** turns a handle into a bare count:
//! it adds to the slot of the counts, then subtracts from the slot of the handles. The evictor sums
//! the handles first, so it sees a reference on its way in one slot or in both. Releasing more
//! counts than were left makes the sum of that slot negative, which is taken for zero: an object
//! with a handle is never evicted, whatever is done to the counts.
//!
//! | access | ordering | partner |
//! |---|---|---|
//! | try_get: add to the counter, then load the state | SeqCst | try_evict: see [`dekker`] |
//! | put: subtract from the counter | Release | the evictor's loads: uses come before the end |
//! | try_evict: to DYING, then load all counters | SeqCst | try_get; Acquire: put, last evictor |
//! | handle_to_count: subtract from the handles | Release | evictor: the count is seen |
//! | try_evict: load every counter of the counts | Acquire | put_counts: as the put of a handle |
//! | try_evict: DYING to LIVE or DEAD | Release | the next evictor sums what this one saw |

use crate::lock::Waiting;
use crate::lock_class;
use crate::percpu::PerCpuCounters;
use crate::primitive::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::primitive::{Backoff, const_unless_loom, dekker};

/// The number of per-CPU counters of an object. Slot 0 counts its handles, slot 1 the readers of a
/// [`PerCpuRwLock`](super::PerCpuRwLock), slots 2 and 3 are for the user, slot 4 counts references
/// without a handle.
pub const SLOTS: usize = 5;

const HANDLES: usize = 0;
pub(super) const READERS: usize = 1;
const COUNTS: usize = 4;

/// The slots that only this module and the rwlock may write.
const RESERVED: u16 = 1 << HANDLES | 1 << READERS | 1 << COUNTS;
/// The slots on the second cache line of each part. References write them; threads that sum the
/// other slots, or take the rwlock for writing, are not disturbed.
const SECOND_LINE: u16 = 1 << HANDLES | 1 << COUNTS;

const LIVE: u32 = 0;
const DYING: u32 = 1;
const DEAD: u32 = 2;

lock_class!(
    /// Deciding whether an object is evicted. Only for the profile: nobody holds anything.
    EvictWait = "object.ending", 0
);

/// The state of an object: LIVE, DYING or DEAD.
pub(super) struct Lifecycle(AtomicU32);

impl Lifecycle {
    const_unless_loom! {
        pub(super) fn new() -> Lifecycle {
            Lifecycle(AtomicU32::new(LIVE))
        }
    }

    /// Takes one reference; false if the object is dead.
    #[inline]
    pub(super) fn try_get(&self, percpu: &PerCpuCounters<SLOTS>) -> bool {
        let word = percpu.local_word(HANDLES);
        dekker::add(word, 1);
        // SeqCst: see the table above.
        self.0.load(Ordering::SeqCst) == LIVE || self.get_slow(word, percpu)
    }

    /// Releases the reference of a handle. The subtraction is the last access to the object.
    #[inline]
    pub(super) fn put(percpu: &PerCpuCounters<SLOTS>) {
        // Release: see the table above.
        percpu.local_word(HANDLES).fetch_sub(1, Ordering::Release);
    }

    /// [`Lifecycle::put`], before all that the thread reads from now on.
    #[inline]
    pub(super) fn put_and_fence(percpu: &PerCpuCounters<SLOTS>) {
        // SeqCst: on x86 the subtraction is a full fence as well; the compiler's fence keeps what
        // follows behind it, and the partner is a fence in the other thread.
        #[cfg(all(
            target_arch = "x86_64",
            not(any(miri, feature = "loom", feature = "shuttle"))
        ))]
        {
            percpu.local_word(HANDLES).fetch_sub(1, Ordering::SeqCst);
            crate::primitive::atomic::compiler_fence(Ordering::SeqCst);
        }
        #[cfg(not(all(
            target_arch = "x86_64",
            not(any(miri, feature = "loom", feature = "shuttle"))
        )))]
        {
            Lifecycle::put(percpu);
            crate::primitive::atomic::fence(Ordering::SeqCst);
        }
    }

    /// Turns the reference of a handle into a bare count.
    #[inline]
    pub(super) fn handle_to_count(percpu: &PerCpuCounters<SLOTS>) {
        // Relaxed: published by the subtraction.
        percpu.local_word(COUNTS).fetch_add(1, Ordering::Relaxed);
        Lifecycle::put(percpu);
    }

    /// Releases bare counts.
    #[inline]
    pub(super) fn put_counts(percpu: &PerCpuCounters<SLOTS>, count: u64) {
        // Release: see the table above.
        percpu
            .local_word(COUNTS)
            .fetch_sub(count, Ordering::Release);
    }

    /// [`Lifecycle::put_counts`], before all that the thread reads from now on.
    #[inline]
    pub(super) fn put_counts_and_fence(percpu: &PerCpuCounters<SLOTS>, count: u64) {
        Lifecycle::put_counts(percpu, count);
        // SeqCst: the partner is a fence in the other thread.
        fence(Ordering::SeqCst);
    }

    /// The number of references; exact while nobody takes or releases one.
    pub(super) fn references(percpu: &PerCpuCounters<SLOTS>) -> i64 {
        percpu.sum(HANDLES) + percpu.sum(COUNTS)
    }

    /// The counters of a new object: one handle.
    // Always inlined: the counters are then made where they stay.
    #[inline(always)]
    pub(super) fn new_counters() -> PerCpuCounters<SLOTS> {
        PerCpuCounters::owned(HANDLES, RESERVED, SECOND_LINE)
    }

    /// Marks the object dead if it has no reference. True for the one caller that did it.
    #[inline]
    pub(super) fn try_evict(&self, percpu: &PerCpuCounters<SLOTS>) -> bool {
        match self.begin_evict() {
            Ok(_) => {}
            Err(DEAD) => return false,
            Err(_) => {
                if !self.begin_evict_slow() {
                    return false;
                }
            }
        }
        let handles = percpu
            .settled_words(HANDLES)
            // SeqCst: see the table above.
            .fold(0_u64, |sum, word| {
                sum.wrapping_add(word.load(Ordering::SeqCst))
            });
        let ended = handles == 0 && Lifecycle::sum_counts(percpu) <= 0;
        // Release: see the table above.
        self.0
            .store(if ended { DEAD } else { LIVE }, Ordering::Release);
        ended
    }

    #[inline(always)]
    fn begin_evict(&self) -> Result<u32, u32> {
        dekker::exchange(&self.0, LIVE, DYING)
    }

    /// Waits for another evictor. What that one finds may be older than what the caller of this one
    /// knows, so its result cannot be used here. False if the object is dead.
    #[cold]
    fn begin_evict_slow(&self) -> bool {
        let backoff = Backoff::new();
        let _waiting = Waiting::<EvictWait>::begin();
        loop {
            match self.begin_evict() {
                Ok(_) => return true,
                Err(DEAD) => return false,
                Err(_) => backoff.snooze(),
            }
        }
    }

    /// True once the object is dead.
    #[inline]
    pub(super) fn is_dead(&self) -> bool {
        // Acquire: pairs with the Release at the end of `try_evict`.
        self.0.load(Ordering::Acquire) == DEAD
    }

    /// The number of bare counts.
    pub(super) fn sum_counts(percpu: &PerCpuCounters<SLOTS>) -> i64 {
        percpu
            .words(COUNTS)
            // Acquire: see the table above.
            .fold(0_u64, |sum, word| {
                sum.wrapping_add(word.load(Ordering::Acquire))
            })
            .cast_signed()
    }

    /// A reference was added to `word` while an evictor was at work: takes it back and tries again.
    #[cold]
    fn get_slow<'a>(&self, mut word: &'a AtomicU64, percpu: &'a PerCpuCounters<SLOTS>) -> bool {
        let backoff = Backoff::new();
        let _waiting = Waiting::<EvictWait>::begin();
        loop {
            // Release: as in `put`.
            word.fetch_sub(1, Ordering::Release);
            loop {
                // Relaxed: the state is loaded again behind the next addition.
                match self.0.load(Ordering::Relaxed) {
                    LIVE => break,
                    DEAD => return false,
                    _ => backoff.snooze(),
                }
            }
            // The counter may be another by now: the thread may have moved, or the counters may
            // have become per-CPU.
            word = percpu.local_word(HANDLES);
            dekker::add(word, 1);
            // SeqCst: see the table above.
            if self.0.load(Ordering::SeqCst) == LIVE {
                return true;
            }
        }
    }
}
