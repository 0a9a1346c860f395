//! The trees of pages count for the memory budget.

use hearth::backend::TestBackend;
use hearth::{Credentials, Errno, Process, Volume};
use hearth_testing::random::Random;
use std::sync::Arc;

const PAGE: u64 = 4096;
const NEW: i32 = libc::O_CREAT | libc::O_RDWR;
const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;

pub fn begin() -> (Volume, Process) {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder().backend(backend).build();
    let volume = volume.expect("a new backend has nothing that could fail");
    let root = volume.process(Credentials::root());
    (volume, root)
}

pub fn counted(volume: &Volume) -> u64 {
    volume.gauges().budgeted_bytes
}

/// Once, only the inode counted, and its tree could be a thousand times as large.
#[test]
fn what_a_large_file_takes_without_a_page_in_memory_counts() {
    let (volume, root) = begin();
    volume.reclaim(u64::MAX);
    let before = counted(&volume);
    let fd = root.open("/f", NEW, 0o600).expect("a new name");
    let pages = 64 << 10;
    root.fallocate(fd, 0, 0, pages * PAGE).expect("room");
    // A node for 64 pages.
    let most = pages / 64 * 576;
    let taken = counted(&volume) - before;
    assert!(taken > most, "{taken} of {most} bytes");
    root.close(fd).expect("it is open");
    volume.sync().expect("the backend fails nothing");
    volume.reclaim(u64::MAX);
    assert_eq!(counted(&volume), before);
    // It comes back with how many pages each node has: which, it asks when they are used.
    assert_eq!(root.stat("/f").expect("it is there").blocks, pages * 8);
    let taken = counted(&volume) - before;
    assert!(taken < most / 8, "{taken} of {most} bytes");
    assert!(volume.reclaim(u64::MAX) >= taken);
    assert_eq!(counted(&volume), before);
    root.unlink("/f").expect("it is there");
    volume.reclaim(u64::MAX);
    assert_eq!(counted(&volume), before);
}

/// Once, they stayed as long as the file was open: with a page in each MiB of it, reclaim searched
/// in vain.
#[test]
fn the_tree_of_an_open_file_leaves_memory_with_its_pages() {
    let (volume, root) = begin();
    let fd = root.open("/f", NEW, 0o600).expect("a new name");
    volume.reclaim(u64::MAX);
    let before = counted(&volume);
    let place = |n: u64| n * 200 * PAGE + n;
    let write = |n: u64, value: u64| {
        let written = root.pwrite(fd, &value.to_le_bytes(), place(n));
        assert_eq!(written, Ok(8));
    };
    let read = |n: u64| {
        let mut bytes = [0; 8];
        assert_eq!(root.pread(fd, &mut bytes, place(n)), Ok(8));
        u64::from_le_bytes(bytes)
    };
    let reclaim = || {
        volume.reclaim(u64::MAX);
        volume.reclaim(u64::MAX);
        counted(&volume) - before
    };
    (0..2000).for_each(|n| write(n, n + 1));
    let left = reclaim();
    assert!(left < 2000 * 576 / 8, "{left} bytes are left");
    let blocks = |root: &Process| root.fstat(fd).expect("it is open").blocks;
    assert_eq!(blocks(&root), 2000 * 8);
    (0..2000).for_each(|n| assert_eq!(read(n), n + 1));
    reclaim();
    // What lies beside a page is still a hole, and what was written stays.
    assert_eq!(
        root.lseek(fd, place(5) as i64 + 4096, libc::SEEK_DATA),
        Ok(place(6) / PAGE * PAGE)
    );
    (0..2000).step_by(7).for_each(|n| write(n, n));
    reclaim();
    let punched = root.fallocate(fd, libc::FALLOC_FL_PUNCH_HOLE | KEEP, 0, place(500));
    assert_eq!((punched, blocks(&root)), (Ok(()), 1500 * 8));
    assert_eq!((read(499), read(500), read(504)), (0, 501, 504));
    reclaim();
    assert_eq!((read(499), read(500), read(504)), (0, 501, 504));
    root.ftruncate(fd, place(1000)).expect("it is open");
    assert_eq!(blocks(&root), 501 * 8);
    assert_eq!(read(999), 1000);
}

/// Once, an allocation needed the leaves of its whole range in memory at once: where they did not
/// fit it went on for ever.
#[test]
fn a_range_is_allocated_and_zeroed_with_less_memory_than_its_tree_takes() {
    const LEAVES: u64 = 3000;
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder().backend(backend);
    let volume = volume.memory_budget(LEAVES * 576 / 4).build();
    let volume = volume.expect("a new backend has nothing that could fail");
    let root = volume.process(Credentials::root());
    let fd = root.open("/f", NEW, 0o600).expect("a new name");
    for leaf in 0..LEAVES {
        let place = (leaf * 64 + leaf % 64) * PAGE;
        assert_eq!(root.pwrite(fd, b"12345678", place), Ok(8));
    }
    volume.sync().expect("the backend fails nothing");
    volume.reclaim(u64::MAX);
    let len = LEAVES * 64 * PAGE;
    let blocks = |root: &Process| root.fstat(fd).expect("it is open").blocks;
    assert_eq!(blocks(&root), LEAVES * 8);
    // What moves has to be in memory.
    let collapse = |root: &Process| root.fallocate(fd, libc::FALLOC_FL_COLLAPSE_RANGE, 0, PAGE);
    assert_eq!(collapse(&root), Err(Errno::ENOMEM));
    assert_eq!(root.fallocate(fd, 0, 0, len + PAGE), Ok(()));
    let size = |root: &Process| root.fstat(fd).expect("it is open").size;
    assert_eq!(
        (blocks(&root), size(&root)),
        (LEAVES * 64 * 8 + 8, len + PAGE)
    );
    let seek = |off: u64| root.lseek(fd, off as i64, libc::SEEK_DATA);
    let last = (LEAVES - 1) * 64 + (LEAVES - 1) % 64;
    assert_eq!(
        seek(last * PAGE - 5 * 64 * PAGE),
        Ok((last - 4 * 64 - 4) * PAGE)
    );
    let zeroed = root.fallocate(fd, libc::FALLOC_FL_ZERO_RANGE, PAGE, len);
    assert_eq!(zeroed, Ok(()));
    assert_eq!((seek(0), seek(PAGE)), (Ok(0), Err(Errno::ENXIO)));
    assert_eq!(blocks(&root), LEAVES * 64 * 8 + 8);
}

#[test]
fn what_was_counted_is_taken_away_again_whatever_was_done_to_the_file() {
    let mut random = Random(1);
    let mut below = |most: u64| random.below(most);
    let (volume, root) = begin();
    volume.reclaim(u64::MAX);
    let before = counted(&volume);
    for _ in 0..60 {
        let mut fd = root.open("/f", NEW, 0o600).expect("a new name");
        for _ in 0..40 {
            let (at, pages) = (below(5000) * PAGE, 1 + below(200));
            let len = pages * PAGE;
            // Some of it is refused: behind the end, or too much.
            let _ = match below(10) {
                0 => root.ftruncate(fd, at),
                1 => root.fallocate(fd, libc::FALLOC_FL_PUNCH_HOLE | KEEP, at, len),
                2 => root.fallocate(fd, libc::FALLOC_FL_ZERO_RANGE, at + 5, len),
                3 => root.fallocate(fd, libc::FALLOC_FL_COLLAPSE_RANGE, at, len),
                4 => root.fallocate(fd, libc::FALLOC_FL_INSERT_RANGE, at, len),
                5 => root.fallocate(fd, KEEP, at << below(30), len),
                6 => root.pread(fd, &mut vec![0; len as usize], at).map(drop),
                7 => {
                    root.close(fd).expect("it is open");
                    volume.reclaim(u64::MAX);
                    fd = root.open("/f", NEW, 0).expect("it is there");
                    Ok(())
                }
                _ => root.pwrite(fd, &vec![1; (len / 9) as usize], at).map(drop),
            };
        }
        root.close(fd).expect("it is open");
        if below(2) == 0 {
            volume.reclaim(u64::MAX);
        }
        root.unlink("/f").expect("it is there");
        volume.reclaim(u64::MAX);
        assert_eq!(counted(&volume), before);
    }
}
