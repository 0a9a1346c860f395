//! Memory for table entries, in chunks that keep their address until the table is freed.
//!
//! A small table maps its chunks one by one. Once it has [`SMALL`] of them, further chunks are cut
//! from regions of whole huge pages, and the kernel is asked for huge pages there. A lookup among a
//! million objects then misses the cache, but not the TLB. A table whose memory has a narrow bound
//! asks for none: one object would take a huge page.
//!
//! A region has huge pages only while all of its chunks are in use. Otherwise the kernel's
//! `khugepaged` would make one of what is left, and so fill again what was given back.

use std::collections::BTreeMap;
use std::ptr::NonNull;

use crate::lock::Lock;
use crate::lock_class;

/// Chunks that are mapped one by one.
const SMALL: usize = 8;
/// A huge page.
const REGION: usize = 2 << 20;
/// Huge pages that a region may have beyond those that one chunk needs.
const EXTRA_PAGES: usize = 7;

lock_class!(SlabsLock = "object.slabs", 952);

/// All memory of one table. Freed when dropped.
pub(super) struct Slabs {
    state: Lock<SlabsLock, State>,
    /// Whether the kernel is asked for huge pages. Immutable.
    is_huge: bool,
}

#[derive(Default)]
struct State {
    /// The mappings to free, by address.
    regions: BTreeMap<NonNull<u8>, Region>,
    /// The part of the last region that is left: address and length.
    left: Option<(NonNull<u8>, usize)>,
    /// Chunks that were given back, zeroed, with their length.
    spare: Vec<(NonNull<u8>, usize)>,
}

/// A mapping.
struct Region {
    length: usize,
    /// Bytes of it that chunks were cut from, from its begin on.
    cut: usize,
    /// Chunks of it among [`State::spare`].
    spare: usize,
}

// SAFETY: the addresses are only stored here; the user of the memory is responsible for its
// contents.
unsafe impl Send for State {}

impl Slabs {
    pub(super) fn new(is_huge: bool) -> Slabs {
        Slabs {
            state: Lock::new(State::default()),
            is_huge,
        }
    }

    /// Zeroed memory of `bytes`, a multiple of 64, aligned to 64.
    pub(super) fn take(&self, bytes: usize) -> NonNull<u8> {
        let mut state = self.state.lock();
        if let Some((at, _)) = state.spare.pop_if(|(_, length)| *length == bytes) {
            self.uses_again(&mut state, at);
            return at;
        }
        if let Some((at, left)) = state.left
            && left >= bytes
        {
            // SAFETY: `left` bytes from `at` belong to the region.
            let rest = unsafe { at.add(bytes) };
            state.left = Some((rest, left - bytes));
            state.region_of(at).1.cut += bytes;
            return at;
        }
        if state.regions.len() < SMALL {
            let at = memory::map(bytes, None);
            state.regions.insert(at, Region::new(bytes, bytes));
            return at;
        }
        let length = region_length(bytes);
        let at = memory::map(length, self.is_huge.then_some(REGION));
        state.regions.insert(at, Region::new(length, bytes));
        // SAFETY: the region has at least `bytes`.
        state.left = Some((unsafe { at.add(bytes) }, length - bytes));
        at
    }

    /// Bytes of the chunks that are in use.
    pub(super) fn in_use(&self) -> usize {
        let state = self.state.lock();
        let cut: usize = state.regions.values().map(|region| region.cut).sum();
        let spare: usize = state.spare.iter().map(|(_, length)| length).sum();
        cut - spare
    }

    /// Takes a chunk back, and gives its memory to the kernel.
    ///
    /// # Safety
    ///
    /// [`Slabs::take`] returned it for so many bytes, and nobody uses it.
    pub(super) unsafe fn give(&self, at: NonNull<u8>, bytes: usize) {
        self.becomes_spare(at);
        // SAFETY: as the caller promises.
        let is_discarded = unsafe { memory::discard(at, bytes) };
        let mut state = self.state.lock();
        if is_discarded {
            state.spare.push((at, bytes));
        } else {
            self.uses_again(&mut state, at);
        }
    }

    /// Counts a chunk as spare, before its memory goes: from the first one on, the kernel makes no
    /// huge pages of its region. A huge page has also filled the end that is too short for a chunk.
    fn becomes_spare(&self, chunk: NonNull<u8>) {
        let mut state = self.state.lock();
        let (at, region) = state.region_of(chunk);
        region.spare += 1;
        if self.is_huge && region.spare == 1 && region.length >= REGION {
            memory::advise_huge(at, region.length, false);
            // SAFETY: no chunk was cut from the end, and none is while the state is locked.
            unsafe { memory::discard(at.add(region.cut), region.length - region.cut) };
        }
    }

    /// Undoes [`Slabs::becomes_spare`].
    fn uses_again(&self, state: &mut State, chunk: NonNull<u8>) {
        let (at, region) = state.region_of(chunk);
        region.spare -= 1;
        if self.is_huge && region.spare == 0 && region.length >= REGION {
            memory::advise_huge(at, region.length, true);
        }
    }
}

/// Bytes of a region for chunks of `bytes`: the fewest huge pages of which the smallest part is
/// left over at the end. A huge page that has a chunk in it is filled as a whole, so what is left
/// over takes memory.
fn region_length(bytes: usize) -> usize {
    let least = bytes.div_ceil(REGION);
    let lengths = (least..=least + EXTRA_PAGES).map(|pages| pages * REGION);
    // In 1024ths: what is less does not matter.
    let left_over = |&length: &usize| (length % bytes) * 1024 / length;
    lengths
        .min_by_key(left_over)
        .expect("there is more than one length")
}

impl Region {
    fn new(length: usize, cut: usize) -> Region {
        let spare = 0;
        Region { length, cut, spare }
    }
}

impl State {
    /// The region that a chunk lies in, with its address.
    fn region_of(&mut self, chunk: NonNull<u8>) -> (NonNull<u8>, &mut Region) {
        let below = self.regions.range_mut(..=chunk).next_back();
        let (&at, region) = below.expect("each chunk was cut from a region");
        (at, region)
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        for (at, region) in std::mem::take(&mut self.state.get_mut().regions) {
            // SAFETY: mapped by `take` with this length, and the owner guarantees that it is no
            // longer used.
            unsafe { memory::unmap(at, region.length) };
        }
    }
}

/// Mapped from the kernel: zeroed, and untouched pages take no memory.
#[cfg(not(any(feature = "loom", feature = "shuttle", miri)))]
mod memory {
    use std::alloc::{Layout, handle_alloc_error};
    use std::ptr::{self, NonNull};

    /// Maps `length` bytes; with `huge`, aligned to that and with huge pages where the kernel can.
    pub(super) fn map(length: usize, huge: Option<usize>) -> NonNull<u8> {
        let slack = huge.unwrap_or(0);
        let start = map_anywhere(length + slack);
        let Some(align) = huge else {
            return start;
        };
        let skip = start.as_ptr().align_offset(align);
        // SAFETY: `skip` is below `align`, by which the mapping is longer than asked for.
        let at = unsafe { start.add(skip) };
        // SAFETY: the two ends were mapped just now, are outside of what is handed out, and are
        // whole pages because the alignment is.
        unsafe {
            unmap(start, skip);
            unmap(at.add(length), slack - skip);
        }
        advise_huge(at, length, true);
        at
    }

    /// Asks for huge pages in a mapping of [`map`], or for none. Advice only: the result changes
    /// nothing but speed and memory.
    pub(super) fn advise_huge(at: NonNull<u8>, length: usize, is_wanted: bool) {
        let advice = if is_wanted {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        // SAFETY: neither advice changes what is read there.
        unsafe { libc::madvise(at.as_ptr().cast(), length, advice) };
    }

    /// # Safety
    ///
    /// These pages were mapped by [`map`] and are used by nobody.
    pub(super) unsafe fn unmap(at: NonNull<u8>, length: usize) {
        if length > 0 {
            // SAFETY: the caller gives the pages up.
            let failed = unsafe { libc::munmap(at.as_ptr().cast(), length) };
            debug_assert_eq!(failed, 0, "pages that were mapped can be unmapped");
        }
    }

    /// Gives the memory of these pages to the kernel; they read as zeros from now on. False if that
    /// cannot be done.
    ///
    /// # Safety
    ///
    /// They lie in a mapping of [`map`] and are used by nobody.
    pub(super) unsafe fn discard(at: NonNull<u8>, length: usize) -> bool {
        // SAFETY: the caller gives the contents up; the pages are private and not of a file.
        let done = unsafe { libc::madvise(at.as_ptr().cast(), length, libc::MADV_DONTNEED) };
        done == 0
    }

    fn map_anywhere(length: usize) -> NonNull<u8> {
        let (readable, private) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new anonymous mapping touches nothing that exists.
        let at = unsafe { libc::mmap(ptr::null_mut(), length, readable, private, -1, 0) };
        if at == libc::MAP_FAILED {
            handle_alloc_error(Layout::from_size_align(length, 1).unwrap_or(Layout::new::<u8>()));
        }
        NonNull::new(at.cast()).expect("the kernel maps nothing at address 0 unasked")
    }
}

/// From the allocator: model checkers run small tables, many thousand times.
#[cfg(any(feature = "loom", feature = "shuttle", miri))]
mod memory {
    use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    use std::ptr::NonNull;

    pub(super) fn map(length: usize, _huge: Option<usize>) -> NonNull<u8> {
        // SAFETY: the length is not 0.
        let at = unsafe { alloc_zeroed(layout(length)) };
        NonNull::new(at).unwrap_or_else(|| handle_alloc_error(layout(length)))
    }

    pub(super) fn advise_huge(_at: NonNull<u8>, _length: usize, _is_wanted: bool) {}

    /// # Safety
    ///
    /// None: the memory stays until the table is freed.
    pub(super) unsafe fn discard(_at: NonNull<u8>, _length: usize) -> bool {
        false
    }

    pub(super) unsafe fn unmap(at: NonNull<u8>, length: usize) {
        // SAFETY: as the caller promises.
        unsafe { dealloc(at.as_ptr(), layout(length)) };
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, 64).expect("chunks are far below the end of memory")
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;
