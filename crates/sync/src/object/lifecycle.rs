//! Whether an object lives, and the per-core references that decide it.
//!
//! References are the sum of one lane over all parts of the object's `PerCpuCounters`, which no single
//! read can see. The protocol that finds zero all the same, "dead, then undo":
//!
//! ```text
//!            begin_kill                    no reference left
//!   LIVE ------------------> DYING ------------------------------> DEAD (for ever)
//!     ^                        |
//!     +------------------------+  a reference was found: undone
//! ```
//!
//! * **get** adds 1 to its core's word and then looks at the state. LIVE: the reference stands.
//!   Otherwise it takes the 1 back *from the very same word*, waits while DYING, and tries again
//!   unless DEAD. A holder that wants a second reference gets it in the same way.
//! * **put** takes 1 from its core's word, whichever that is by now.
//! * **kill** makes LIVE into DYING (one killer at a time), sums all words, and makes DYING into
//!   DEAD if the sum is zero, back into LIVE if not.
//!
//! Why zero means zero. Getter and killer both write and then look at what the other writes, in
//! the one order of all such accesses ([`dekker`]): a getter whose addition the killer does not
//! find comes after the killer's DYING and sees it, takes back what it added and never stood. One
//! whose addition is found is in the sum. So the sum has every standing reference; what may be
//! missing are puts of it, and what may be too much are additions that will be taken back, from
//! the same word, so that a word seen without the addition is never seen with the taking back. The
//! sum is never below the number of references.
//!
//! The killer writes the state and none of the words. Once there is a part for each core, who only
//! counts, or passes the gate that is counted beside, is not disturbed by the end of a name of a
//! file that is open; before, the killer settles on a line with the words that there are no parts.
//!
//! Handles and bare counts have a lane each. **leave** turns a handle into a bare count: it adds
//! to the lane of the counts, then subtracts from the lane of the handles. The killer sums the
//! handles first, so it sees a reference on its way in one lane or in both. Giving up more counts
//! than were left makes that lane's sum negative, which is taken for zero: an object with a
//! handle is never ended, whatever is done to the counts.
//!
//! | access | ordering | partner |
//! |---|---|---|
//! | get: add to the word, then load the state | SeqCst | kill: see [`dekker`] |
//! | put: subtract from the word | Release | the killer's loads: uses come before the end |
//! | kill: LIVE to DYING, then load every word | SeqCst | get; Acquire: put, last killer |
//! | leave: subtract from the handles | Release | the killer's loads: the count is seen |
//! | kill: load every word of the counts | Acquire | put of counts: as the put of a handle |
//! | kill: DYING to LIVE or DEAD | Release | the next killer sums what this one saw |

use crate::lock::Waiting;
use crate::lock_class;
use crate::percpu::PerCpuCounters;
use crate::primitive::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::primitive::{Backoff, const_unless_loom, dekker};

/// How many words an object counts per core: lane 0 are its handles, lane 1 is for a
/// [`PerCpuRwLock`](super::PerCpuRwLock), 2 and 3 are for the user, lane 4 are references without a handle.
pub const SLOTS: usize = 5;

const HANDLES: usize = 0;
pub(super) const READERS: usize = 1;
const COUNTS: usize = 4;

/// The lanes that only this module and the gate may write.
const RESERVED: u16 = 1 << HANDLES | 1 << READERS | 1 << COUNTS;
/// The lanes that lie apart: references move them, and who sums the others or closes the gate is
/// not disturbed.
const SECOND_LINE: u16 = 1 << HANDLES | 1 << COUNTS;

const LIVE: u32 = 0;
const DYING: u32 = 1;
const DEAD: u32 = 2;

lock_class!(
    /// Deciding whether an object ends. Only for the profile: nobody holds anything.
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

    /// Gives up the reference of a handle. The subtraction is the last access to the object.
    #[inline]
    pub(super) fn put(percpu: &PerCpuCounters<SLOTS>) {
        // Release: see the table above.
        percpu.local_word(HANDLES).fetch_sub(1, Ordering::Release);
    }

    /// Turns the reference of a handle into a bare count.
    #[inline]
    pub(super) fn handle_to_count(percpu: &PerCpuCounters<SLOTS>) {
        // Relaxed: published by the subtraction.
        percpu.local_word(COUNTS).fetch_add(1, Ordering::Relaxed);
        Lifecycle::put(percpu);
    }

    /// Gives up bare counts.
    #[inline]
    pub(super) fn put_counts(percpu: &PerCpuCounters<SLOTS>, count: u64) {
        // Release: see the table above.
        percpu
            .local_word(COUNTS)
            .fetch_sub(count, Ordering::Release);
    }

    /// How many references there are; exact when nobody takes or gives one meanwhile.
    pub(super) fn references(percpu: &PerCpuCounters<SLOTS>) -> i64 {
        percpu.sum(HANDLES) + percpu.sum(COUNTS)
    }

    /// The counted words of a new object: one handle.
    pub(super) fn new_counters() -> PerCpuCounters<SLOTS> {
        let mut words = [0; SLOTS];
        words[HANDLES] = 1;
        PerCpuCounters::owned(words, RESERVED, SECOND_LINE)
    }

    /// Ends the object if nobody has a reference. True for the one caller that ended it.
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

    /// Another killer is at work. What it finds may be older than what the caller of this one
    /// knows, so it cannot answer for this one. False when it ended the object.
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

    /// True once the object was ended.
    #[inline]
    pub(super) fn is_dead(&self) -> bool {
        // Acquire: pairs with the Release at the end of `try_evict`.
        self.0.load(Ordering::Acquire) == DEAD
    }

    /// References that are only counted.
    pub(super) fn sum_counts(percpu: &PerCpuCounters<SLOTS>) -> i64 {
        percpu
            .words(COUNTS)
            // Acquire: see the table above.
            .fold(0_u64, |sum, word| {
                sum.wrapping_add(word.load(Ordering::Acquire))
            })
            .cast_signed()
    }

    /// A reference was added to `word` while a killer was at work: takes it back and tries again.
    #[cold]
    fn get_slow<'a>(&self, mut word: &'a AtomicU64, percpu: &'a PerCpuCounters<SLOTS>) -> bool {
        let backoff = Backoff::new();
        let _waiting = Waiting::<EvictWait>::begin();
        loop {
            // Release: as a put.
            word.fetch_sub(1, Ordering::Release);
            loop {
                // Relaxed: it is asked again behind the next addition.
                match self.0.load(Ordering::Relaxed) {
                    LIVE => break,
                    DEAD => return false,
                    _ => backoff.snooze(),
                }
            }
            // The part may be another by now: the thread may have moved, the words may have split.
            word = percpu.local_word(HANDLES);
            dekker::add(word, 1);
            // SeqCst: see the table above.
            if self.0.load(Ordering::SeqCst) == LIVE {
                return true;
            }
        }
    }
}
