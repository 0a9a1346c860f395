//! Counters that split into per-core parts when a second core shows up.

mod counter;
mod per_core;

pub use counter::Counter;
pub use per_core::PerCore;

use std::ptr;

use crate::primitive::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::primitive::{core, cores};

/// `N` words that are counted per core once more than one core counts.
///
/// The first core that writes owns the inline part. When another core writes, one part per core
/// is allocated, each on cache lines of its own, and every core uses its own from then on; the
/// inline part stays and keeps what it had. A part has two lines, one for lanes that lie apart and
/// one for the others: who sums what is counted does not read what references write. A word is
/// either a sum ([`Spread::add`]) or a maximum ([`Spread::raise`]); its reader folds all parts.
///
/// Which part a thread writes is a matter of speed only: every write is atomic, so a thread that
/// has moved to another core or still holds a part of before the split loses nothing.
///
/// | field | written by | ordering | partner |
/// |---|---|---|---|
/// | `owner` | once, the first writer | Relaxed | none: it guards no memory |
/// | `parts` | once, the second core | Release | Acquire loads: the parts are zeroed |
/// | words | their core, and stragglers | Relaxed unless said otherwise | |
pub struct Spread<const N: usize> {
    /// The words of the owner, and of everybody before the split.
    inline: Part<N>,
    /// Null, then `cores()` parts until drop.
    parts: AtomicPtr<OfCore<N>>,
    /// The core that owns `inline`, plus one; 0 for none yet.
    owner: AtomicU32,
    /// One bit per lane that only this crate writes. Immutable.
    reserved: u16,
    /// One bit per lane that lies on the second line of each part. Immutable.
    apart: u16,
}

type Part<const N: usize> = [AtomicU64; N];

/// The part of one core: the lanes that do not lie apart, then those that do. The words of the
/// other kind lie idle in each.
struct OfCore<const N: usize>([Padded<N>; 2]);

#[repr(align(64))]
struct Padded<const N: usize>(Part<N>);

impl<const N: usize> OfCore<N> {
    fn new() -> OfCore<N> {
        let part = || Padded(std::array::from_fn(|_| AtomicU64::new(0)));
        OfCore([part(), part()])
    }

    #[inline]
    fn word(&self, lane: usize, apart: u16) -> &AtomicU64 {
        &self.0[(apart >> lane & 1) as usize].0[lane]
    }
}

impl<const N: usize> Spread<N> {
    /// All words zero, owned by nobody.
    #[cfg(not(feature = "loom"))]
    pub const fn new() -> Spread<N> {
        Spread {
            inline: [const { AtomicU64::new(0) }; N],
            parts: AtomicPtr::new(ptr::null_mut()),
            owner: AtomicU32::new(0),
            reserved: 0,
            apart: 0,
        }
    }

    /// All words zero, owned by nobody.
    #[cfg(feature = "loom")]
    pub fn new() -> Spread<N> {
        Spread {
            inline: std::array::from_fn(|_| AtomicU64::new(0)),
            parts: AtomicPtr::new(ptr::null_mut()),
            owner: AtomicU32::new(0),
            reserved: 0,
            apart: 0,
        }
    }

    /// Adds `delta` to the sum in `lane`.
    ///
    /// # Panics
    ///
    /// When the lane is reserved: 0, 1 and 4 of an [`Object`](crate::object::Object).
    #[inline]
    pub fn add(&self, lane: usize, delta: i64) {
        self.check_writable(lane);
        // Relaxed: a sum is a statistic; who needs more uses `cell` and says why.
        self.cell(lane)
            .fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
    }

    /// Raises the maximum in `lane` to at least `value`; writes nothing if it is already there.
    #[inline]
    pub fn raise(&self, lane: usize, value: u64) {
        self.check_writable(lane);
        let cell = self.cell(lane);
        // Relaxed: a maximum orders nothing, and a stale value only costs the write below.
        if cell.load(Ordering::Relaxed) < value {
            cell.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// The sum in `lane`: exact when nobody adds meanwhile.
    #[inline]
    pub fn sum(&self, lane: usize) -> i64 {
        // Relaxed: see `add`.
        self.cells(lane)
            .fold(0, |sum: u64, cell| {
                sum.wrapping_add(cell.load(Ordering::Relaxed))
            })
            .cast_signed()
    }

    /// The maximum in `lane`.
    #[inline]
    pub fn max(&self, lane: usize) -> u64 {
        // Relaxed: see `raise`.
        self.cells(lane)
            .fold(0, |max, cell| max.max(cell.load(Ordering::Relaxed)))
    }

    /// Sets every part of the maximum in `lane` to `value`, even if that lowers it; writes nothing
    /// where it is that already.
    ///
    /// A raise at the same moment may win or lose.
    pub fn reset_max(&self, lane: usize, value: u64) {
        self.check_writable(lane);
        for cell in self.cells(lane) {
            // Relaxed: see `raise`.
            if cell.load(Ordering::Relaxed) != value {
                cell.store(value, Ordering::Relaxed);
            }
        }
    }

    /// True once there is a part per core.
    #[inline]
    pub fn is_spread(&self) -> bool {
        // Relaxed: the pointer is not followed.
        !self.parts.load(Ordering::Relaxed).is_null()
    }

    /// Words that start at `words`, owned by this core. The lanes whose bits are set in `reserved`
    /// are read by everybody and written through [`Spread::cell`] only; those in `apart` share no
    /// line with the others once there are parts.
    pub(crate) fn owned(words: [u64; N], reserved: u16, apart: u16) -> Spread<N> {
        Spread {
            inline: words.map(AtomicU64::new),
            parts: AtomicPtr::new(ptr::null_mut()),
            owner: AtomicU32::new(owner_of(core())),
            reserved,
            apart,
        }
    }

    /// The word of `lane` that this core should write now.
    ///
    /// Callers that must undo a write keep the reference: the next call may answer another word.
    #[inline]
    pub(crate) fn cell(&self, lane: usize) -> &AtomicU64 {
        let core = core();
        // Acquire: pairs with the Release in `split`; the parts are zeroed.
        let parts = self.parts.load(Ordering::Acquire);
        if !parts.is_null() {
            debug_assert!(core < cores());
            // SAFETY: `parts` has `cores()` elements, lives until drop, and `core` is below.
            return unsafe { &*parts.add(core) }.word(lane, self.apart);
        }
        // Relaxed: ownership is a matter of speed, see the type.
        if self.owner.load(Ordering::Relaxed) == owner_of(core) {
            return &self.inline[lane];
        }
        self.claim_or_split(core, lane)
    }

    /// All words of `lane` as this thread sees them now.
    #[inline]
    pub(crate) fn cells(&self, lane: usize) -> impl Iterator<Item = &AtomicU64> {
        // Acquire: pairs with the Release in `split`; the parts are zeroed.
        self.cells_of(self.parts.load(Ordering::Acquire), lane)
    }

    /// All words of `lane`, such that every word that is missing here is written only by threads
    /// that see everything the caller did before.
    ///
    /// A thread that splits after this reads the exchange below and so synchronises with it, and
    /// who uses the parts synchronises with the split.
    pub(crate) fn settled_cells(&self, lane: usize) -> impl Iterator<Item = &AtomicU64> {
        // Acquire: pairs with the Release in `split`. Parts that are there stay, and with the
        // inline one they are all there is.
        let parts = self.parts.load(Ordering::Acquire);
        if !parts.is_null() {
            return self.cells_of(parts, lane);
        }
        // AcqRel: Release pairs with the Acquire of the exchange in `split` that comes later,
        // Acquire pairs with its Release if it came first.
        let parts = match self.parts.compare_exchange(
            ptr::null_mut(),
            ptr::null_mut(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(parts) | Err(parts) => parts,
        };
        self.cells_of(parts, lane)
    }

    /// Memory safety hangs on reserved lanes, so safe code must not write them.
    #[inline]
    fn check_writable(&self, lane: usize) {
        assert!(self.reserved >> lane & 1 == 0, "this lane is reserved");
    }

    #[inline]
    fn cells_of(&self, parts: *mut OfCore<N>, lane: usize) -> impl Iterator<Item = &AtomicU64> {
        let parts = if parts.is_null() {
            &[]
        } else {
            // SAFETY: `parts` comes from `self.parts`, has `cores()` elements and lives until
            // drop.
            unsafe { std::slice::from_raw_parts(parts, cores()) }
        };
        let apart = self.apart;
        std::iter::once(&self.inline[lane])
            .chain(parts.iter().map(move |part| part.word(lane, apart)))
    }

    /// Makes this core the owner, or makes parts if another core is.
    #[cold]
    fn claim_or_split(&self, core: usize, lane: usize) -> &AtomicU64 {
        // Relaxed: ownership is a matter of speed, see the type.
        let claimed =
            self.owner
                .compare_exchange(0, owner_of(core), Ordering::Relaxed, Ordering::Relaxed);
        if claimed.is_ok() {
            return &self.inline[lane];
        }
        // SAFETY: `split` answers `cores()` elements that live until drop, and `core` is below.
        unsafe { &*self.split().add(core) }.word(lane, self.apart)
    }

    /// The parts, allocated now unless another core was faster.
    fn split(&self) -> *mut OfCore<N> {
        let parts: Box<[OfCore<N>]> = (0..cores()).map(|_| OfCore::new()).collect();
        let parts = Box::into_raw(parts).cast::<OfCore<N>>();
        // AcqRel: Release publishes the zeroed parts to the Acquire loads of `parts`; Acquire
        // pairs with the Release in `settled_cells`. Acquire on failure: the other core's parts
        // are about to be used.
        match self.parts.compare_exchange(
            ptr::null_mut(),
            parts,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => parts,
            Err(theirs) => {
                // SAFETY: the exchange failed, so nobody else has seen our parts.
                unsafe { free_parts(parts) };
                theirs
            }
        }
    }
}

impl<const N: usize> Default for Spread<N> {
    fn default() -> Spread<N> {
        Spread::new()
    }
}

impl<const N: usize> std::fmt::Debug for Spread<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries((0..N).map(|lane| self.sum(lane)))
            .finish()
    }
}

impl<const N: usize> Drop for Spread<N> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` has synchronised with the split.
        let parts = self.parts.load(Ordering::Relaxed);
        if !parts.is_null() {
            // SAFETY: the parts were published by `split`, and `&mut self` proves that nobody
            // uses them any more.
            unsafe { free_parts(parts) };
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
/// `parts` comes from [`Spread::split`] and is used by nobody any more.
unsafe fn free_parts<const N: usize>(parts: *mut OfCore<N>) {
    // SAFETY: `split` made the box with `cores()` elements, a constant of the run.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(parts, cores())) });
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;
