//! Sequence counts: several atomic words read as if they were one.
//!
//! The words themselves are Relaxed atomics. The count is even while they are stable and odd
//! while a writer changes them; a reader takes the count, reads the words, and starts again if
//! the count was odd or has changed.
//!
//! | who | does | ordering | partner |
//! |---|---|---|---|
//! | writer | makes the count odd | Relaxed, Release fence | reader's fence: new word, odd count |
//! | writer | makes it even | Release | the reader's first load: new count, new words |
//! | reader | first load | Acquire | the writer's last store |
//! | reader | second load | Acquire fence, then Relaxed | the writer's Release fence |

use crate::primitive::atomic::{AtomicU32, Ordering, fence};
use crate::primitive::{Backoff, const_unless_loom};

/// A sequence count whose writers are kept apart by somebody else's lock.
#[derive(Debug, Default)]
pub struct SeqCount(AtomicU32);

/// A write section; ends when dropped.
#[derive(Debug)]
#[must_use = "the write section ends when this is dropped"]
pub struct SeqWrite<'a> {
    count: &'a AtomicU32,
    /// The odd value that stands in the count during the section.
    odd: u32,
}

impl SeqCount {
    const_unless_loom! {
        /// A count at rest.
        pub fn new() -> SeqCount {
            SeqCount(AtomicU32::new(0))
        }
    }

    /// Begins to read; waits while a writer is at work.
    #[inline]
    pub fn read_begin(&self) -> u32 {
        read_begin(&self.0)
    }

    /// Ends a read that began with `start`: true if it must be done again.
    #[inline]
    pub fn read_retry(&self, start: u32) -> bool {
        read_retry(&self.0, start)
    }

    /// The count as it is, odd during a write. For walks that check several counts at the end.
    #[inline]
    pub fn peek(&self) -> u32 {
        // Acquire: pairs with the Release that ends a write section.
        self.0.load(Ordering::Acquire)
    }

    /// Reads with `read` until no writer came in between.
    #[inline]
    pub fn read<R>(&self, read: impl FnMut() -> R) -> R {
        read_whole(&self.0, read)
    }

    /// Begins to write. The caller has excluded other writers.
    #[inline]
    pub fn write(&self) -> SeqWrite<'_> {
        // Relaxed: only writers change the count, and the caller's lock orders them.
        let even = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(even & 1, 0, "two writers in one write section");
        let odd = even.wrapping_add(1);
        // Relaxed: ordered before the words by the fence in `open`.
        self.0.store(odd, Ordering::Relaxed);
        SeqWrite::open(&self.0, odd)
    }
}

/// A sequence count that is also the lock between its writers.
#[derive(Debug, Default)]
pub struct SeqLock(AtomicU32);

impl SeqLock {
    const_unless_loom! {
        /// An open lock.
        pub fn new() -> SeqLock {
            SeqLock(AtomicU32::new(0))
        }
    }

    /// Reads with `read` until no writer came in between.
    #[inline]
    pub fn read<R>(&self, read: impl FnMut() -> R) -> R {
        read_whole(&self.0, read)
    }

    /// Begins to read; waits while a writer is at work.
    #[inline]
    pub fn read_begin(&self) -> u32 {
        read_begin(&self.0)
    }

    /// Ends a read that began with `start`: true if it must be done again.
    #[inline]
    pub fn read_retry(&self, start: u32) -> bool {
        read_retry(&self.0, start)
    }

    /// Takes the lock, waiting for another writer, and begins to write.
    #[inline]
    pub fn write(&self) -> SeqWrite<'_> {
        let backoff = Backoff::new();
        loop {
            if let Some(write) = self.try_write() {
                return write;
            }
            backoff.snooze();
        }
    }

    /// Takes the lock and begins to write, if no other writer is at work.
    #[inline]
    pub fn try_write(&self) -> Option<SeqWrite<'_>> {
        // Relaxed: the exchange below decides.
        let even = self.0.load(Ordering::Relaxed);
        if even & 1 == 1 {
            return None;
        }
        let odd = even.wrapping_add(1);
        // Acquire: pairs with the Release that ended the last write section, whose words this
        // writer may read. Relaxed on failure: nothing was taken.
        self.0
            .compare_exchange(even, odd, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| SeqWrite::open(&self.0, odd))
    }
}

impl<'a> SeqWrite<'a> {
    #[inline]
    fn open(count: &'a AtomicU32, odd: u32) -> SeqWrite<'a> {
        // Release: pairs with the Acquire fence in `read_retry`. A reader that saw one of the
        // words written after this sees the odd count (or a later one) and reads again.
        fence(Ordering::Release);
        SeqWrite { count, odd }
    }
}

impl Drop for SeqWrite<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `read_begin` and in `try_write`.
        self.count
            .store(self.odd.wrapping_add(1), Ordering::Release);
    }
}

#[inline]
fn read_begin(count: &AtomicU32) -> u32 {
    // Acquire: pairs with the Release in `SeqWrite::drop`; the words are at least as new as
    // the count.
    let start = count.load(Ordering::Acquire);
    if start & 1 == 0 {
        start
    } else {
        wait_while_odd(count)
    }
}

#[cold]
fn wait_while_odd(count: &AtomicU32) -> u32 {
    let backoff = Backoff::new();
    loop {
        backoff.snooze();
        // Acquire: as in `read_begin`.
        let start = count.load(Ordering::Acquire);
        if start & 1 == 0 {
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
fn read_whole<R>(count: &AtomicU32, mut read: impl FnMut() -> R) -> R {
    loop {
        let start = read_begin(count);
        let value = read();
        if !read_retry(count, start) {
            return value;
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::primitive::atomic::AtomicU64;

    #[test]
    fn a_reader_that_met_a_writer_reads_again() {
        let count = SeqCount::new();
        let start = count.read_begin();
        assert!(!count.read_retry(start));
        drop(count.write());
        assert!(count.read_retry(start));
        assert_eq!(count.read_begin(), start + 2);
    }

    #[test]
    fn a_second_writer_is_kept_out() {
        let lock = SeqLock::new();
        let first = lock.write();
        assert!(lock.try_write().is_none());
        drop(first);
        assert!(lock.try_write().is_some());
    }

    #[test]
    fn words_written_together_are_read_together() {
        let lock = SeqLock::new();
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        let _write = lock.write();
                        for word in &words {
                            word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        }
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..50_000 {
                    let [a, b] = lock.read(|| [0, 1].map(|i| words[i].load(Ordering::Relaxed)));
                    assert_eq!(a, b);
                }
            });
        });
        assert_eq!(words[0].load(Ordering::Relaxed), 100_000);
    }
}
