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
    let bytes = REGION / 2 + 4096;
    let each = region_length(bytes) / bytes;
    let chunks: Vec<_> = (0..SMALL + each).map(|_| slabs.take(bytes)).collect();
    let first = chunks[SMALL];
    // SAFETY: the region is longer than its chunks, and none was cut from its end. The chunk is
    // ours and given back once.
    unsafe {
        let end = first.add(each * bytes);
        end.write(7);
        slabs.give(chunks[SMALL + 1], bytes);
        assert_eq!(end.read(), 0);
        first.write(7);
    }
}

/// Once, 128 KiB of each huge page were left over by leaves of 320 KiB: 21 bytes for each of a
/// million files.
#[test]
#[cfg_attr(miri, ignore = "it would zero forty million bytes")]
fn hardly_anything_of_a_full_region_is_left_over() {
    let slabs = Slabs::new(true);
    let bytes = 320 << 10;
    for _ in 0..SMALL + 128 {
        slabs.take(bytes);
    }
    let state = slabs.state.lock();
    let left = state.left.map_or(0, |(_, left)| left);
    let mapped: usize = state.regions.values().map(|region| region.length).sum();
    let cut: usize = state.regions.values().map(|region| region.cut).sum();
    let over = mapped - cut - left;
    assert!(over * 100 <= cut, "{over} of {mapped}");
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
