//! Per-CPU data: one value per core, counters that become per-CPU when a second core writes them,
//! and counters with a part for each thread.

mod counter;
mod per_cpu;
mod thread_counters;

pub use counter::Counter;
pub use per_cpu::PerCpu;
pub use thread_counters::ThreadCounters;

use std::ptr;

use crate::primitive::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::primitive::{core, cores};

/// `N` counters that become per-CPU once more than one core writes them.
///
/// The first core that writes owns the inline counters. When another core writes, the counters are
/// inflated: one part per core is allocated, each on cache lines of its own, and every core writes
/// its own part from then on. The inline counters stay and keep their values. A part has two lines,
/// one for the slots in `second_line` and one for the others: summing a statistic does not read the
/// line that references write. A slot is either a sum ([`PerCpuCounters::add`]) or a maximum
/// ([`PerCpuCounters::raise`]); a read folds all parts.
///
/// The choice of the part matters only for speed. Every write is atomic, so a thread that has moved
/// to another core, or still holds a counter from before the inflation, loses nothing.
///
/// | field | written by | ordering | partner |
/// |---|---|---|---|
/// | `owner` | once, the first writer | Relaxed | none: it guards no memory |
/// | `percpu` | once, the second core | Release | Acquire loads: the parts are zeroed |
/// | counters | their core, and stragglers | Relaxed unless said otherwise | |
pub struct PerCpuCounters<const N: usize> {
    /// The counters of the owner, and of every thread before the inflation.
    inline: Slots<N>,
    /// Null, then `cores()` parts until drop.
    percpu: AtomicPtr<CpuSlots<N>>,
    /// The core that owns `inline`, plus one; 0 for none yet.
    owner: AtomicU32,
    /// One bit per slot that only this crate writes. Immutable.
    reserved: u16,
    /// One bit per slot that lies on the second line of each part. Immutable.
    second_line: u16,
}

type Slots<const N: usize> = [AtomicU64; N];

/// The part of one core: a line for the slots outside of `second_line`, then a line for those in
/// it. The other counters of each line are unused.
struct CpuSlots<const N: usize>([Padded<N>; 2]);

#[repr(align(64))]
struct Padded<const N: usize>(Slots<N>);

impl<const N: usize> CpuSlots<N> {
    fn new() -> CpuSlots<N> {
        let line = || Padded(std::array::from_fn(|_| AtomicU64::new(0)));
        CpuSlots([line(), line()])
    }

    #[inline]
    fn word(&self, slot: usize, second_line: u16) -> &AtomicU64 {
        &self.0[(second_line >> slot & 1) as usize].0[slot]
    }
}

impl<const N: usize> PerCpuCounters<N> {
    /// All counters zero, owned by no core.
    #[cfg(not(feature = "loom"))]
    pub const fn new() -> PerCpuCounters<N> {
        PerCpuCounters {
            inline: [const { AtomicU64::new(0) }; N],
            percpu: AtomicPtr::new(ptr::null_mut()),
            owner: AtomicU32::new(0),
            reserved: 0,
            second_line: 0,
        }
    }

    /// All counters zero, owned by no core.
    #[cfg(feature = "loom")]
    pub fn new() -> PerCpuCounters<N> {
        PerCpuCounters {
            inline: std::array::from_fn(|_| AtomicU64::new(0)),
            percpu: AtomicPtr::new(ptr::null_mut()),
            owner: AtomicU32::new(0),
            reserved: 0,
            second_line: 0,
        }
    }

    /// Adds `delta` to the sum in `slot`.
    ///
    /// # Panics
    ///
    /// When the slot is reserved: 0, 1 and 4 of an [`Object`](crate::object::Object).
    #[inline]
    pub fn add(&self, slot: usize, delta: i64) {
        self.check_writable(slot);
        // Relaxed: a sum is a statistic; a caller that needs more uses `local_word` and says why.
        self.local_word(slot)
            .fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
    }

    /// Raises the maximum in `slot` to at least `value`; writes nothing if it is already there.
    /// Returns what this core's part was before.
    #[inline]
    pub fn raise(&self, slot: usize, value: u64) -> u64 {
        self.check_writable(slot);
        let word = self.local_word(slot);
        // Relaxed: a maximum orders nothing, and a stale value only costs the write below.
        let before = word.load(Ordering::Relaxed);
        if before < value {
            word.fetch_max(value, Ordering::Relaxed);
        }
        before
    }

    /// [`PerCpuCounters::add`] and [`PerCpuCounters::raise`] of two slots, asking for the core
    /// once.
    ///
    /// # Panics
    ///
    /// When one of the slots is reserved.
    // Always inlined: of its one caller it is the most.
    #[inline(always)]
    pub fn add_and_raise(&self, (sum, delta): (usize, i64), (max, value): (usize, u64)) -> u64 {
        let both = 1 << sum | 1 << max;
        assert!(self.reserved & both == 0, "one of these slots is reserved");
        let [sum, max] = self.local_words([sum, max]);
        // Relaxed: see `add`.
        sum.fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
        // Relaxed: see `raise`.
        let before = max.load(Ordering::Relaxed);
        if before < value {
            max.fetch_max(value, Ordering::Relaxed);
        }
        before
    }

    /// What this core has added to the sum in `slot`; what others have may be in it as well. Reads
    /// no memory but what the next [`PerCpuCounters::add`] writes.
    #[inline]
    pub fn own(&self, slot: usize) -> i64 {
        // Relaxed: see `add`.
        self.local_word(slot).load(Ordering::Relaxed).cast_signed()
    }

    /// The sum in `slot`: exact while nobody adds.
    #[inline]
    pub fn sum(&self, slot: usize) -> i64 {
        if !self.is_inflated() {
            // Relaxed: see `add`.
            return self.inline[slot].load(Ordering::Relaxed).cast_signed();
        }
        // Relaxed: see `add`.
        self.words(slot)
            .fold(0, |sum: u64, word| {
                sum.wrapping_add(word.load(Ordering::Relaxed))
            })
            .cast_signed()
    }

    /// The maximum in `slot`.
    #[inline]
    pub fn max(&self, slot: usize) -> u64 {
        if !self.is_inflated() {
            // Relaxed: see `raise`.
            return self.inline[slot].load(Ordering::Relaxed);
        }
        // Relaxed: see `raise`.
        self.words(slot)
            .fold(0, |max, word| max.max(word.load(Ordering::Relaxed)))
    }

    /// Sets every part of the maximum in `slot` to `value`, even if that lowers it; writes only
    /// parts that differ.
    ///
    /// A concurrent raise may win or lose.
    pub fn reset_max(&self, slot: usize, value: u64) {
        self.check_writable(slot);
        for word in self.words(slot) {
            // Relaxed: see `raise`.
            if word.load(Ordering::Relaxed) != value {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    /// The maximum in `slot`, which begins anew at 0: a concurrent raise is in what is returned, or
    /// stays.
    pub fn take_max(&self, slot: usize) -> u64 {
        self.check_writable(slot);
        // Relaxed: see `raise`.
        let take = |word: &AtomicU64| match word.load(Ordering::Relaxed) {
            0 => 0,
            _ => word.swap(0, Ordering::Relaxed),
        };
        self.words(slot).fold(0, |max, word| max.max(take(word)))
    }

    /// True once there is a part per core.
    #[inline]
    pub fn is_inflated(&self) -> bool {
        // Relaxed: the pointer is not followed.
        !self.percpu.load(Ordering::Relaxed).is_null()
    }

    /// Counters that start at 0, but for the one in slot `first`, which starts at 1, owned by this
    /// core. Slots in `reserved` are written through [`PerCpuCounters::local_word`] only. Slots in
    /// `second_line` share no line with the others once the counters are inflated.
    // Always inlined, as below: the counters are made where they stay. An array of what they start
    // at would be copied there.
    #[inline(always)]
    pub(crate) fn owned(first: usize, reserved: u16, second_line: u16) -> PerCpuCounters<N> {
        PerCpuCounters {
            inline: std::array::from_fn(|slot| AtomicU64::new(u64::from(slot == first))),
            percpu: AtomicPtr::new(ptr::null_mut()),
            owner: AtomicU32::new(owner_of(core())),
            reserved,
            second_line,
        }
    }

    /// The counter of `slot` that this core should write now.
    ///
    /// A caller that must undo a write keeps the reference: the next call may return another
    /// counter.
    #[inline(always)]
    pub(crate) fn local_word(&self, slot: usize) -> &AtomicU64 {
        let [word] = self.local_words([slot]);
        word
    }

    /// The counters of several slots that this core should write now.
    // Always inlined: a call takes as much as the rest.
    #[inline(always)]
    fn local_words<const M: usize>(&self, slots: [usize; M]) -> [&AtomicU64; M] {
        let core = core();
        // Acquire: pairs with the Release in `inflate`; the parts are zeroed.
        let percpu = self.percpu.load(Ordering::Acquire);
        if !percpu.is_null() {
            debug_assert!(core < cores());
            // SAFETY: `percpu` has `cores()` elements, lives until drop, and `core` is below.
            let part = unsafe { &*percpu.add(core) };
            return slots.map(|slot| part.word(slot, self.second_line));
        }
        // Relaxed: ownership is a matter of speed, see the type.
        if self.owner.load(Ordering::Relaxed) == owner_of(core) {
            return slots.map(|slot| &self.inline[slot]);
        }
        slots.map(|slot| self.claim_or_inflate(core, slot))
    }

    /// All counters of `slot` as this thread sees them now.
    #[inline]
    pub(crate) fn words(&self, slot: usize) -> impl Iterator<Item = &AtomicU64> {
        // Acquire: pairs with the Release in `inflate`; the parts are zeroed.
        self.words_of(self.percpu.load(Ordering::Acquire), slot)
    }

    /// All counters of `slot`, such that every counter that is missing here is written only by
    /// threads that see everything the caller did before.
    ///
    /// A thread that inflates after this call reads the exchange below and so synchronises with it,
    /// and users of the parts synchronise with the inflation.
    pub(crate) fn settled_words(&self, slot: usize) -> impl Iterator<Item = &AtomicU64> {
        // Acquire: pairs with the Release in `inflate`. Existing parts stay, and together with the
        // inline counters they are complete.
        let percpu = self.percpu.load(Ordering::Acquire);
        if !percpu.is_null() {
            return self.words_of(percpu, slot);
        }
        // AcqRel: Release pairs with the Acquire of the exchange in `inflate` that comes later,
        // Acquire pairs with its Release if it came first.
        let percpu = match self.percpu.compare_exchange(
            ptr::null_mut(),
            ptr::null_mut(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(percpu) | Err(percpu) => percpu,
        };
        self.words_of(percpu, slot)
    }

    /// Memory safety depends on reserved slots, so safe code must not write them.
    #[inline]
    fn check_writable(&self, slot: usize) {
        assert!(self.reserved >> slot & 1 == 0, "this slot is reserved");
    }

    #[inline]
    fn words_of(&self, percpu: *mut CpuSlots<N>, slot: usize) -> impl Iterator<Item = &AtomicU64> {
        let percpu = if percpu.is_null() {
            &[]
        } else {
            // SAFETY: `percpu` comes from `self.percpu`, has `cores()` elements and lives until
            // drop.
            unsafe { std::slice::from_raw_parts(percpu, cores()) }
        };
        let second_line = self.second_line;
        std::iter::once(&self.inline[slot])
            .chain(percpu.iter().map(move |part| part.word(slot, second_line)))
    }

    /// Makes this core the owner, or inflates the counters if another core is.
    #[cold]
    fn claim_or_inflate(&self, core: usize, slot: usize) -> &AtomicU64 {
        // Relaxed: ownership is a matter of speed, see the type.
        let claimed =
            self.owner
                .compare_exchange(0, owner_of(core), Ordering::Relaxed, Ordering::Relaxed);
        if claimed.is_ok() {
            return &self.inline[slot];
        }
        // SAFETY: `inflate` returns `cores()` elements that live until drop, and `core` is below.
        unsafe { &*self.inflate().add(core) }.word(slot, self.second_line)
    }

    /// The parts, allocated now unless another core was faster.
    fn inflate(&self) -> *mut CpuSlots<N> {
        let percpu: Box<[CpuSlots<N>]> = (0..cores()).map(|_| CpuSlots::new()).collect();
        let percpu = Box::into_raw(percpu).cast::<CpuSlots<N>>();
        // AcqRel: Release publishes the zeroed parts to the Acquire loads of `percpu`; Acquire
        // pairs with the Release in `settled_words`. Acquire on failure: the other core's parts
        // are about to be used.
        match self.percpu.compare_exchange(
            ptr::null_mut(),
            percpu,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => percpu,
            Err(theirs) => {
                // SAFETY: the exchange failed, so nobody else has seen our parts.
                unsafe { free_percpu(percpu) };
                theirs
            }
        }
    }
}

impl<const N: usize> Default for PerCpuCounters<N> {
    fn default() -> PerCpuCounters<N> {
        PerCpuCounters::new()
    }
}

impl<const N: usize> std::fmt::Debug for PerCpuCounters<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries((0..N).map(|slot| self.sum(slot)))
            .finish()
    }
}

impl<const N: usize> Drop for PerCpuCounters<N> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` has synchronised with the inflation.
        let percpu = self.percpu.load(Ordering::Relaxed);
        if !percpu.is_null() {
            // SAFETY: the parts were published by `inflate`, and `&mut self` proves that nobody
            // uses them any more.
            unsafe { free_percpu(percpu) };
        }
    }
}

/// The encoding of a core in `owner`: 0 is none.
#[inline]
fn owner_of(core: usize) -> u32 {
    core as u32 + 1
}

/// # Safety
///
/// `percpu` comes from [`PerCpuCounters::inflate`] and is used by nobody any more.
unsafe fn free_percpu<const N: usize>(percpu: *mut CpuSlots<N>) {
    // SAFETY: `inflate` made the box with `cores()` elements, a constant of the run.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(percpu, cores())) });
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;
