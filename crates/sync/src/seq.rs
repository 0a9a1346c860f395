//! Sequence counts and sequence locks: several atomic words are read as if they were one.
//!
//! The words themselves are Relaxed atomics. The count is even while they are stable and odd while
//! a writer changes them. A reader loads the count, reads the words, and starts again if the count
//! was odd or has changed.
//!
//! | who | does | ordering | partner |
//! |---|---|---|---|
//! | writer | makes the count odd | Relaxed, Release fence | reader's fence: new word, odd count |
//! | writer | makes it even | Release | the reader's first load: new count, new words |
//! | reader | first load | Acquire | the writer's last store |
//! | reader | second load | Acquire fence, then Relaxed | the writer's Release fence |

use std::marker::PhantomData;
use std::panic::Location;

use crate::lock::{Class, Waiting};
use crate::primitive::atomic::{AtomicU32, Ordering, fence};
use crate::primitive::{Backoff, LastCore, const_unless_loom};
use crate::profile::{self, Key, Side};

/// A writer is at work.
const WRITING: u32 = 1;
/// The current write section is timed.
const TIMED: u32 = 2;
/// The amount that a write section adds to the count.
const STEP: u32 = 4;

/// A sequence count whose writers are excluded by another lock. Readers that wait are profiled
/// under `C`, the class of that lock.
pub struct SeqCount<C> {
    count: AtomicU32,
    class: PhantomData<fn() -> C>,
}

/// A write section; ends on drop. Stays on its thread.
#[derive(Debug)]
#[must_use = "the write section ends when this is dropped"]
pub struct SeqWrite<'a> {
    count: &'a AtomicU32,
    /// The odd value of the count during the section.
    odd: u32,
    thread: PhantomData<*const ()>,
}

impl<C: Class> SeqCount<C> {
    const_unless_loom! {
        /// A count without a writer.
        pub fn new() -> SeqCount<C> {
            SeqCount { count: AtomicU32::new(STEP), class: PhantomData }
        }
    }

    /// Begins a read; waits while a writer is at work.
    #[inline]
    #[track_caller]
    pub fn read_begin(&self) -> u32 {
        read_begin::<C>(&self.count)
    }

    /// Ends a read that began with `start`; true if it must be repeated.
    #[inline]
    pub fn read_retry(&self, start: u32) -> bool {
        read_retry(&self.count, start)
    }

    /// Begins a read; `None` while a writer is at work.
    #[inline]
    pub fn try_read_begin(&self) -> Option<u32> {
        let start = self.peek();
        (start & WRITING == 0).then_some(start)
    }

    /// The current count, odd during a write. For path walks that validate several counts at the
    /// end, by [`SeqCount::has_moved_since`].
    #[inline]
    pub fn peek(&self) -> u32 {
        // Acquire: pairs with the Release that ends a write section.
        self.count.load(Ordering::Acquire)
    }

    /// Ends a read that began with a [peek](Self::peek), whatever it saw; true if the words that
    /// were read since may be of different moments.
    #[inline]
    pub fn has_moved_since(&self, peeked: u32) -> bool {
        peeked & WRITING != 0 || self.read_retry(peeked)
    }

    /// Repeats `read` until no writer interfered.
    #[inline]
    #[track_caller]
    pub fn read<R>(&self, read: impl FnMut() -> R) -> R {
        read_whole::<C, R>(&self.count, read)
    }

    /// Goes on from at least `count`, an even count of another: for what moves from there to here
    /// and keeps its order. Nobody else knows this count yet.
    pub fn continue_from(&self, count: u32) {
        // Relaxed: the caller publishes it afterwards.
        self.count.store(count, Ordering::Relaxed);
    }

    /// Begins a write section. The caller has excluded other writers.
    #[inline]
    pub fn write(&self) -> SeqWrite<'_> {
        // Relaxed: only writers change the count, and the caller's lock orders them.
        let even = self.count.load(Ordering::Relaxed);
        debug_assert_eq!(even & WRITING, 0, "two writers in one write section");
        let odd = even | WRITING;
        // Relaxed: ordered before the words by the fence in `open`.
        self.count.store(odd, Ordering::Relaxed);
        SeqWrite::open(&self.count, odd)
    }
}

/// A sequence count that is also the lock of class `C` between its writers.
pub struct SeqLock<C> {
    count: AtomicU32,
    class: PhantomData<fn() -> C>,
}

impl<C: Class> SeqLock<C> {
    const_unless_loom! {
        /// An open lock.
        pub fn new() -> SeqLock<C> {
            SeqLock { count: AtomicU32::new(STEP), class: PhantomData }
        }
    }

    /// Repeats `read` until no writer interfered.
    #[inline]
    #[track_caller]
    pub fn read<R>(&self, read: impl FnMut() -> R) -> R {
        read_whole::<C, R>(&self.count, read)
    }

    /// Begins a read; waits while a writer is at work.
    #[inline]
    #[track_caller]
    pub fn read_begin(&self) -> u32 {
        read_begin::<C>(&self.count)
    }

    /// Ends a read that began with `start`; true if it must be repeated.
    #[inline]
    pub fn read_retry(&self, start: u32) -> bool {
        read_retry(&self.count, start)
    }

    /// How many write sections there were before now, by a count that wraps.
    #[track_caller]
    pub fn sections(&self) -> u32 {
        self.read_begin() / STEP
    }

    /// Goes on above the count of `other`, which nobody writes any more: what others have read here
    /// before reads again.
    pub fn raise_above(&self, other: &SeqLock<C>, last: &LastCore) {
        // Acquire: pairs with the Release that ended the last write section.
        let above = other.count.load(Ordering::Acquire) | WRITING;
        let mut write = self.write(last);
        write.odd = above.wrapping_add(STEP);
    }

    /// Takes the lock, waiting for another writer, and begins a write section.
    ///
    /// `last` is where the profile stores the writer's core: always the same for one lock, and near
    /// it. It is not part of the lock, so that it can lie in a gap between other fields.
    #[inline]
    #[track_caller]
    pub fn write(&self, last: &LastCore) -> SeqWrite<'_> {
        // Relaxed: the exchange decides.
        let count = self.count.load(Ordering::Relaxed);
        // While the profile is on, every count looks odd here.
        let is_begun = match count & profile::write_mask() == 0 {
            true => begin_write(&self.count, count),
            false => begin_watched(&self.count, count, last),
        };
        let odd = match is_begun {
            true => count | WRITING,
            false => write_slow(&self.count, last, C::NAME, Location::caller()),
        };
        SeqWrite::open(&self.count, odd)
    }
}

impl SeqWrite<'_> {
    /// A number that is larger in each later section of this count, by wrapping comparison.
    #[inline]
    pub fn version(&self) -> u32 {
        self.odd
    }
}

impl<'a> SeqWrite<'a> {
    #[inline]
    fn open(count: &'a AtomicU32, odd: u32) -> SeqWrite<'a> {
        // Release: pairs with the Acquire fence in `read_retry`. A reader that saw one of the
        // words written after this sees the odd count (or a later one) and reads again.
        fence(Ordering::Release);
        SeqWrite {
            count,
            odd,
            thread: PhantomData,
        }
    }
}

impl Drop for SeqWrite<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.odd & TIMED != 0 {
            profile::released(std::ptr::from_ref(self.count).addr());
        }
        let next = (self.odd | WRITING | TIMED).wrapping_add(1);
        // Release: pairs with the Acquire in `read_begin` and in `begin_write`.
        self.count.store(next, Ordering::Release);
    }
}

/// Makes an even count odd; false if it has changed.
#[inline]
fn begin_write(count: &AtomicU32, even: u32) -> bool {
    // Acquire: pairs with the Release that ended the last write section, whose words this
    // writer may read. Relaxed on failure: nothing was taken.
    count
        .compare_exchange(even, even | WRITING, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

/// Makes an even count odd, and records only the core; false if a sample is due or the count has
/// changed.
#[inline(always)]
fn begin_watched(count: &AtomicU32, now: u32, last: &LastCore) -> bool {
    profile::try_unsampled(|| {
        let is_begun = now & WRITING == 0 && begin_write(count, now);
        if is_begun {
            last.set();
        }
        is_begun
    })
}

/// Waits for another writer, or records the write in the profile, or both. Returns the odd count.
#[cold]
#[inline(never)]
fn write_slow(
    count: &AtomicU32,
    last: &LastCore,
    class: &'static str,
    site: &'static Location<'static>,
) -> u32 {
    let mut since = None;
    let backoff = Backoff::new();
    let odd = loop {
        // Relaxed: the exchange decides.
        let now = count.load(Ordering::Relaxed);
        if now & WRITING != 0 {
            since = since.or_else(|| profile::is_on().then(profile::now));
            backoff.snooze();
        } else if begin_write(count, now) {
            break now | WRITING;
        }
    };
    if !profile::is_on() && since.is_none() {
        return odd;
    }
    let side = Side::Write;
    let key = || Key { class, side, site };
    let (address, bounced) = (std::ptr::from_ref(count).addr(), last.update());
    let timed = match since {
        Some(since) => profile::waited(address, &key(), bounced, since),
        None => profile::taken(address, key, bounced),
    };
    if !timed {
        return odd;
    }
    // Relaxed: as odd as before, and ordered before the words by the fence in `open`.
    count.store(odd | TIMED, Ordering::Relaxed);
    odd | TIMED
}

#[inline]
#[track_caller]
fn read_begin<C: Class>(count: &AtomicU32) -> u32 {
    // Acquire: pairs with the Release in `SeqWrite::drop`; the words are at least as new as
    // the count.
    let start = count.load(Ordering::Acquire);
    if start & WRITING == 0 {
        start
    } else {
        wait_while_odd::<C>(count)
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn wait_while_odd<C: Class>(count: &AtomicU32) -> u32 {
    let _waiting = Waiting::<C>::begin();
    let backoff = Backoff::new();
    loop {
        backoff.snooze();
        // Acquire: as in `read_begin`.
        let start = count.load(Ordering::Acquire);
        if start & WRITING == 0 {
            return start;
        }
    }
}

#[inline]
fn read_retry(count: &AtomicU32, start: u32) -> bool {
    // Acquire: pairs with the Release fence in `SeqWrite::open`; if one of the words came from a
    // later write section, the load below sees its count.
    fence(Ordering::Acquire);
    // Relaxed: the fence orders it after the words.
    count.load(Ordering::Relaxed) != start
}

#[inline]
#[track_caller]
fn read_whole<C: Class, R>(count: &AtomicU32, mut read: impl FnMut() -> R) -> R {
    loop {
        let start = read_begin::<C>(count);
        let value = read();
        if !read_retry(count, start) {
            return value;
        }
    }
}

impl<C: Class> Default for SeqCount<C> {
    fn default() -> SeqCount<C> {
        SeqCount::new()
    }
}

impl<C: Class> std::fmt::Debug for SeqCount<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: printed only.
        let count = self.count.load(Ordering::Relaxed);
        f.debug_tuple("SeqCount")
            .field(&C::NAME)
            .field(&count)
            .finish()
    }
}

impl<C: Class> Default for SeqLock<C> {
    fn default() -> SeqLock<C> {
        SeqLock::new()
    }
}

impl<C: Class> std::fmt::Debug for SeqLock<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: printed only.
        let count = self.count.load(Ordering::Relaxed);
        f.debug_tuple("SeqLock")
            .field(&C::NAME)
            .field(&count)
            .finish()
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::lock_class;
    use crate::primitive::atomic::AtomicU64;
    use crate::primitive::rounds;

    lock_class!(Tested = "tested", 1);

    #[test]
    fn a_read_that_overlaps_a_write_is_repeated() {
        let count = SeqCount::<Tested>::new();
        let start = count.read_begin();
        assert!(!count.read_retry(start));
        drop(count.write());
        assert!(count.read_retry(start));
        assert_eq!(count.read_begin(), start + STEP);
    }

    #[test]
    fn a_seqlock_excludes_a_second_writer() {
        let lock = SeqLock::<Tested>::new();
        let last = LastCore::new();
        let first = lock.write(&last);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(lock.write(&last)));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!second.is_finished());
            drop(first);
        });
        assert_eq!(lock.read_begin(), 3 * STEP);
    }

    #[test]
    fn readers_see_words_of_one_write_section() {
        let lock = SeqLock::<Tested>::new();
        let last = LastCore::new();
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..rounds(50_000) {
                        let _write = lock.write(&last);
                        for word in &words {
                            word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        }
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..rounds(50_000) {
                    let [a, b] = lock.read(|| [0, 1].map(|i| words[i].load(Ordering::Relaxed)));
                    assert_eq!(a, b);
                }
            });
        });
        assert_eq!(words[0].load(Ordering::Relaxed), 2 * rounds(50_000));
    }
}
