//! One page in memory.

use std::ops::Range;

use hearth_sync::atomic_bytes::AtomicBytes;
use hearth_sync::lock_class;
use hearth_sync::primitive::LastCore;
use hearth_sync::primitive::atomic::{AtomicU8, Ordering};
use hearth_sync::seq::SeqLock;

use super::span::PAGE_BYTES;

/// 4 KiB of a file and their state.
///
/// This has a cache line of its own and so have the bytes: pages share no line, and a reader of
/// warm pages writes none. The bytes are a block of memory by themselves: allocators have blocks of
/// 4 KiB, and use 5 for a request of one line more.
#[repr(align(64))]
pub(super) struct Page {
    seq: SeqLock<PageLock>,
    /// `DIRTY`, `WRITEBACK`, `REFERENCED`.
    flags: AtomicU8,
    /// The low bits of the epoch in which this content was last recorded; 0 for one that came from
    /// the backend. Written by `flush` before it clears `WRITEBACK`.
    recorded: AtomicU8,
    last: LastCore,
    /// Written under the lock of `seq`; read at any time, whole under `seq`'s retry.
    bytes: Box<AtomicBytes<{ PAGE_BYTES / 8 }>>,
    #[cfg(test)]
    _tally: super::live_count::LiveToken,
}

// Under a model checker the atomics are larger.
#[cfg(not(any(test, feature = "shuttle")))]
const _: () = assert!(size_of::<Page>() == 64);

lock_class!(PageLock = "data.page", 80);

/// The backend does not have this content yet. Set by every change of bytes, under the page lock;
/// cleared by `flush` before it copies.
const DIRTY: u8 = 1;
/// A flush has copied the bytes and the backend has not returned. Eviction must wait: the backend
/// could still give back the content from before. Set and cleared by `flush`.
const WRITEBACK: u8 = 2;
/// Used since the clock hand last passed. Set by readers and writers when they find it clear,
/// cleared by `evict`.
const REFERENCED: u8 = 4;

impl Page {
    /// Bytes of memory that a page takes.
    pub(super) const SIZE: usize = size_of::<Page>() + PAGE_BYTES;

    /// A page from the backend: clean.
    pub(super) fn loaded(bytes: &[u8]) -> Box<Page> {
        Page::with(0, &bytes[..bytes.len().min(PAGE_BYTES)], REFERENCED)
    }

    /// A page that did not exist: zeros, with `bytes` from `start` on.
    pub(super) fn written(start: usize, bytes: &[u8]) -> Box<Page> {
        Page::with(start, bytes, REFERENCED | DIRTY)
    }

    fn with(start: usize, bytes: &[u8], flags: u8) -> Box<Page> {
        Box::new(Page {
            seq: SeqLock::new(),
            flags: AtomicU8::new(flags),
            recorded: AtomicU8::new(0),
            last: LastCore::new(),
            bytes: AtomicBytes::boxed_with(start, bytes),
            #[cfg(test)]
            _tally: super::live_count::LiveToken::new(),
        })
    }

    /// Copies bytes out, all of them from between two writes. Writes nothing shared, except the
    /// reference bit of a page that the clock hand has passed.
    #[inline]
    pub(super) fn read(&self, start: usize, out: &mut [u8]) {
        self.seq.read(|| self.bytes.read(start, out));
        self.touch();
    }

    /// Copies the whole page out without counting as a use.
    pub(super) fn copy(&self, out: &mut [u8]) {
        self.seq.read(|| self.bytes.read(0, out));
    }

    /// Puts `bytes` at `start`. Returns whether the page was clean: a flush that begins at this
    /// moment may hide that.
    #[inline]
    pub(super) fn write(&self, start: usize, bytes: &[u8]) -> bool {
        let _changing = self.seq.write(&self.last);
        self.bytes.write(start, bytes);
        let was_clean = !self.is_dirty();
        self.mark_written();
        was_clean
    }

    /// Zeroes a range; a page that has zeros there already stays as it is.
    pub(super) fn zero(&self, range: Range<usize>) {
        let _changing = self.seq.write(&self.last);
        if !self.bytes.is_zero(range.clone()) {
            self.bytes.zero(range);
            self.mark_written();
        }
    }

    /// Marks the page dirty although its bytes have not changed.
    pub(super) fn set_dirty(&self) {
        self.mark_written();
    }

    /// Whether the backend does not have this content yet.
    pub(super) fn is_dirty(&self) -> bool {
        // Relaxed: a page dirtied after this look is for the next flush.
        self.flags.load(Ordering::Relaxed) & DIRTY != 0
    }

    /// Clears the dirty bit of a page, which must then be copied and given to the backend.
    pub(super) fn begin_flush(&self) {
        // Relaxed: eviction is the only other reader of WRITEBACK, and this runs inside the gate,
        // which it closes.
        self.flags.fetch_or(WRITEBACK, Ordering::Relaxed);
        // Acquire pairs with the Release of `mark_written`: if the change came first, the copy that
        // follows has its bytes; if it comes later, the page stays dirty.
        self.flags.fetch_and(!DIRTY, Ordering::Acquire);
    }

    /// Whether a flush has begun and not ended.
    pub(super) fn is_flushing(&self) -> bool {
        // Relaxed: only the flush itself reads it, and there is one at a time.
        self.flags.load(Ordering::Relaxed) & WRITEBACK != 0
    }

    /// Ends what `begin_flush` began: the content was recorded in the epoch with these low bits, or
    /// the page is dirty again.
    pub(super) fn end_flush(&self, recorded: Option<u8>) {
        match recorded {
            // Relaxed: the flag orders it.
            Some(epoch) => self.recorded.store(epoch, Ordering::Relaxed),
            None => self.mark_written(),
        }
        // Release: partner of `is_clean`. Who finds the flag clear finds the epoch.
        self.flags.fetch_and(!WRITEBACK, Ordering::Release);
    }

    /// Whether the backend was told of this content, and no flush is under way. Only with the gate
    /// closed.
    pub(super) fn is_clean(&self) -> bool {
        // Acquire: partner of `end_flush`. With the gate closed no page becomes dirty, and no flush
        // begins.
        self.flags.load(Ordering::Acquire) & (DIRTY | WRITEBACK) == 0
    }

    /// Whether the backend can give this content again: it is clean, and `has` says that the
    /// backend has the epoch, by its low bits, in which it was recorded. Only with the gate closed.
    pub(super) fn is_at_backend(&self, has: impl Fn(u8) -> bool) -> bool {
        // Relaxed: after the flags; the flush that would change it has not begun.
        self.is_clean() && has(self.recorded.load(Ordering::Relaxed))
    }

    /// The clock hand passes: returns whether the page may be evicted, `has` as in
    /// [`Page::is_at_backend`]. A page used since the last time stays and loses its reference bit.
    /// Only with the gate closed.
    pub(super) fn is_evictable(&self, has: impl Fn(u8) -> bool) -> bool {
        if !self.is_at_backend(has) {
            return false;
        }
        // Relaxed: a hint.
        if self.flags.load(Ordering::Relaxed) & REFERENCED != 0 {
            self.flags.fetch_and(!REFERENCED, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn touch(&self) {
        // Relaxed: a hint for the clock.
        if self.flags.load(Ordering::Relaxed) & REFERENCED == 0 {
            self.flags.fetch_or(REFERENCED, Ordering::Relaxed);
        }
    }

    /// Always a read-modify-write, never "if it is clear": a load could find the DIRTY that a flush
    /// clears while the bytes of this thread are still on their way.
    fn mark_written(&self) {
        // Release pairs with the Acquire of `begin_flush`.
        self.flags.fetch_or(DIRTY | REFERENCED, Ordering::Release);
    }
}
