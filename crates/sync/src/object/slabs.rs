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
        let length = bytes.next_multiple_of(REGION);
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
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "it would look at each of five million bytes")]
    fn chunks_are_zeroed_aligned_and_disjoint() {
        let slabs = Slabs::new(true);
        let bytes = 192 << 10;
        let mut chunks: Vec<_> = (0..3 * SMALL).map(|_| slabs.take(bytes)).collect();
        for (n, chunk) in chunks.iter().enumerate() {
            assert_eq!(chunk.as_ptr().align_offset(64), 0);
            // SAFETY: the chunk is ours and has this many bytes.
            let chunk = unsafe { std::slice::from_raw_parts_mut(chunk.as_ptr(), bytes) };
            assert!(chunk.iter().all(|&byte| byte == 0), "chunk {n}");
            chunk.fill(n as u8 + 1);
        }
        chunks.sort();
        let apart = chunks
            .windows(2)
            .all(|two| two[1].addr().get() - two[0].addr().get() >= bytes);
        assert!(apart);
    }

    #[test]
    #[cfg_attr(miri, ignore = "memory is not given back there")]
    fn a_chunk_that_was_given_back_is_zeroed_and_used_again() {
        let slabs = Slabs::new(false);
        let bytes = 192 << 10;
        let chunks: Vec<_> = (0..3 * SMALL).map(|_| slabs.take(bytes)).collect();
        for chunk in &chunks {
            // SAFETY: the chunk is ours and has this many bytes; it is given back once.
            unsafe {
                chunk.write_bytes(7, bytes);
                slabs.give(*chunk, bytes);
            }
        }
        for _ in &chunks {
            let chunk = slabs.take(bytes);
            assert!(chunks.contains(&chunk));
            // SAFETY: the chunk is ours and has this many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(chunk.as_ptr(), bytes) };
            assert!(bytes.iter().all(|&byte| byte == 0));
        }
        assert!(!chunks.contains(&slabs.take(bytes)));
    }

    /// The flags of the mapping that `at` lies in, as `/proc/self/smaps` shows them: `hg` where
    /// huge pages were asked for, `nh` where none may be made.
    fn flags(at: NonNull<u8>) -> String {
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("/proc is mounted");
        let mut is_inside = false;
        for line in smaps.lines() {
            let range = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'));
            if let Some((from, to)) = range {
                let bound = |hex| usize::from_str_radix(hex, 16).expect("an address");
                is_inside = (bound(from)..bound(to)).contains(&at.addr().get());
            }
            if let (true, Some(flags)) = (is_inside, line.strip_prefix("VmFlags:")) {
                return flags.to_owned();
            }
        }
        panic!("{at:?} is not mapped");
    }

    #[test]
    #[cfg_attr(miri, ignore = "it asks the kernel")]
    fn a_region_has_huge_pages_only_while_none_of_its_chunks_is_spare() {
        let slabs = Slabs::new(true);
        let bytes = 192 << 10;
        let chunks: Vec<_> = (0..3 * SMALL).map(|_| slabs.take(bytes)).collect();
        let two = &chunks[SMALL..SMALL + 2];
        let state = || [flags(two[0]).contains(" hg"), flags(two[0]).contains(" nh")];
        assert_eq!(state(), [true, false], "a kernel without huge pages?");
        // SAFETY: the chunks are ours, and each is given back once.
        unsafe {
            slabs.give(two[0], bytes);
            slabs.give(two[1], bytes);
        }
        assert_eq!(state(), [false, true]);
        slabs.take(bytes);
        assert_eq!(state(), [false, true], "one is still spare");
        slabs.take(bytes);
        assert_eq!(state(), [true, false]);
    }

    /// Once, 128 KiB of each 2 MiB stayed: of a million removed files 22 MiB.
    #[test]
    #[cfg_attr(miri, ignore = "memory is not given back there")]
    fn the_end_of_a_region_goes_with_its_first_chunk() {
        let slabs = Slabs::new(true);
        let bytes = 192 << 10;
        let each = REGION / bytes;
        let chunks: Vec<_> = (0..SMALL + each).map(|_| slabs.take(bytes)).collect();
        let first = chunks[SMALL];
        // SAFETY: the region is a huge page, and no chunk was cut from its end. The chunk is ours
        // and given back once.
        unsafe {
            let end = first.add(each * bytes);
            end.write(7);
            slabs.give(chunks[SMALL + 1], bytes);
            assert_eq!(end.read(), 0);
            first.write(7);
        }
    }

    #[test]
    fn a_chunk_larger_than_a_huge_page_is_contiguous() {
        let slabs = Slabs::new(true);
        for _ in 0..SMALL + 2 {
            let chunk = slabs.take(REGION + 64);
            // SAFETY: the chunk has this many bytes.
            unsafe { chunk.add(REGION + 63).write(1) };
        }
    }
}
