//! Counters that split into per-core parts when a second core shows up.

mod counter;
mod per_cpu;

pub use counter::Counter;
pub use per_cpu::PerCpu;

use std::ptr;

use crate::primitive::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::primitive::{core, cores};

/// `N` words that are counted per core once more than one core counts.
///
/// The first core that writes owns the inline part. When another core writes, one part per core
/// is allocated, each on cache lines of its own, and every core uses its own from then on; the
/// inline part stays and keeps what it had. A part has two lines, one for lanes that lie apart and
/// one for the others: who sums what is counted does not read what references write. A word is
/// either a sum ([`PerCpuCounters::add`]) or a maximum ([`PerCpuCounters::raise`]); its reader folds all parts.
///
/// Which part a thread writes is a matter of speed only: every write is atomic, so a thread that
/// has moved to another core or still holds a part of before the split loses nothing.
///
/// | field | written by | ordering | partner |
/// |---|---|---|---|
/// | `owner` | once, the first writer | Relaxed | none: it guards no memory |
/// | `percpu` | once, the second core | Release | Acquire loads: the parts are zeroed |
/// | words | their core, and stragglers | Relaxed unless said otherwise | |
pub struct PerCpuCounters<const N: usize> {
    /// The words of the owner, and of everybody before the split.
    inline: Slots<N>,
    /// Null, then `cores()` parts until drop.
    percpu: AtomicPtr<CpuSlots<N>>,
    /// The core that owns `inline`, plus one; 0 for none yet.
    owner: AtomicU32,
    /// One bit per lane that only this crate writes. Immutable.
    reserved: u16,
    /// One bit per lane that lies on the second line of each part. Immutable.
    second_line: u16,
}

type Slots<const N: usize> = [AtomicU64; N];

/// The part of one core: the lanes that do not lie apart, then those that do. The words of the
/// other kind lie idle in each.
struct CpuSlots<const N: usize>([Padded<N>; 2]);

#[repr(align(64))]
struct Padded<const N: usize>(Slots<N>);

impl<const N: usize> CpuSlots<N> {
    fn new() -> CpuSlots<N> {
        let part = || Padded(std::array::from_fn(|_| AtomicU64::new(0)));
        CpuSlots([part(), part()])
    }

    #[inline]
    fn word(&self, slot: usize, second_line: u16) -> &AtomicU64 {
        &self.0[(second_line >> slot & 1) as usize].0[slot]
    }
}

impl<const N: usize> PerCpuCounters<N> {
    /// All words zero, owned by nobody.
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

    /// All words zero, owned by nobody.
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
    /// When the lane is reserved: 0, 1 and 4 of an [`Object`](crate::object::Object).
    #[inline]
    pub fn add(&self, slot: usize, delta: i64) {
        self.check_writable(slot);
        // Relaxed: a sum is a statistic; who needs more uses `local_word` and says why.
        self.local_word(slot)
            .fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
    }

    /// Raises the maximum in `slot` to at least `value`; writes nothing if it is already there.
    #[inline]
    pub fn raise(&self, slot: usize, value: u64) {
        self.check_writable(slot);
        let local_word = self.local_word(slot);
        // Relaxed: a maximum orders nothing, and a stale value only costs the write below.
        if local_word.load(Ordering::Relaxed) < value {
            local_word.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// The sum in `slot`: exact when nobody adds meanwhile.
    #[inline]
    pub fn sum(&self, slot: usize) -> i64 {
        // Relaxed: see `add`.
        self.words(slot)
            .fold(0, |sum: u64, local_word| {
                sum.wrapping_add(local_word.load(Ordering::Relaxed))
            })
            .cast_signed()
    }

    /// The maximum in `slot`.
    #[inline]
    pub fn max(&self, slot: usize) -> u64 {
        // Relaxed: see `raise`.
        self.words(slot).fold(0, |max, local_word| {
            max.max(local_word.load(Ordering::Relaxed))
        })
    }

    /// Sets every part of the maximum in `slot` to `value`, even if that lowers it; writes nothing
    /// where it is that already.
    ///
    /// A raise at the same moment may win or lose.
    pub fn reset_max(&self, slot: usize, value: u64) {
        self.check_writable(slot);
        for local_word in self.words(slot) {
            // Relaxed: see `raise`.
            if local_word.load(Ordering::Relaxed) != value {
                local_word.store(value, Ordering::Relaxed);
            }
        }
    }

    /// True once there is a part per core.
    #[inline]
    pub fn is_inflated(&self) -> bool {
        // Relaxed: the pointer is not followed.
        !self.percpu.load(Ordering::Relaxed).is_null()
    }

    /// Words that start at `words`, owned by this core. The lanes whose bits are set in `reserved`
    /// are read by everybody and written through [`PerCpuCounters::local_word`] only; those in `second_line` share no
    /// line with the others once there are parts.
    pub(crate) fn owned(words: [u64; N], reserved: u16, second_line: u16) -> PerCpuCounters<N> {
        PerCpuCounters {
            inline: words.map(AtomicU64::new),
            percpu: AtomicPtr::new(ptr::null_mut()),
            owner: AtomicU32::new(owner_of(core())),
            reserved,
            second_line,
        }
    }

    /// The word of `slot` that this core should write now.
    ///
    /// Callers that must undo a write keep the reference: the next call may answer another word.
    #[inline]
    pub(crate) fn local_word(&self, slot: usize) -> &AtomicU64 {
        let core = core();
        // Acquire: pairs with the Release in `inflate`; the parts are zeroed.
        let percpu = self.percpu.load(Ordering::Acquire);
        if !percpu.is_null() {
            debug_assert!(core < cores());
            // SAFETY: `percpu` has `cores()` elements, lives until drop, and `core` is below.
            return unsafe { &*percpu.add(core) }.word(slot, self.second_line);
        }
        // Relaxed: ownership is a matter of speed, see the type.
        if self.owner.load(Ordering::Relaxed) == owner_of(core) {
            return &self.inline[slot];
        }
        self.claim_or_inflate(core, slot)
    }

    /// All words of `slot` as this thread sees them now.
    #[inline]
    pub(crate) fn words(&self, slot: usize) -> impl Iterator<Item = &AtomicU64> {
        // Acquire: pairs with the Release in `inflate`; the parts are zeroed.
        self.words_of(self.percpu.load(Ordering::Acquire), slot)
    }

    /// All words of `slot`, such that every word that is missing here is written only by threads
    /// that see everything the caller did before.
    ///
    /// A thread that splits after this reads the exchange below and so synchronises with it, and
    /// who uses the parts synchronises with the split.
    pub(crate) fn settled_words(&self, slot: usize) -> impl Iterator<Item = &AtomicU64> {
        // Acquire: pairs with the Release in `inflate`. Parts that are there stay, and with the
        // inline one they are all there is.
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

    /// Memory safety hangs on reserved lanes, so safe code must not write them.
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

    /// Makes this core the owner, or makes parts if another core is.
    #[cold]
    fn claim_or_inflate(&self, core: usize, slot: usize) -> &AtomicU64 {
        // Relaxed: ownership is a matter of speed, see the type.
        let claimed =
            self.owner
                .compare_exchange(0, owner_of(core), Ordering::Relaxed, Ordering::Relaxed);
        if claimed.is_ok() {
            return &self.inline[slot];
        }
        // SAFETY: `inflate` answers `cores()` elements that live until drop, and `core` is below.
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
        // Relaxed: `&mut self` has synchronised with the split.
        let percpu = self.percpu.load(Ordering::Relaxed);
        if !percpu.is_null() {
            // SAFETY: the parts were published by `inflate`, and `&mut self` proves that nobody
            // uses them any more.
            unsafe { free_percpu(percpu) };
        }
    }
}

/// How `owner` names a core: 0 is nobody.
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
