//! The trees of pages count for the memory budget.

use hearth::backend::TestBackend;
use hearth::{Credentials, Process, Volume};
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
    root.stat("/f").expect("it is there");
    let taken = counted(&volume) - before;
    assert!(taken > most, "{taken} of {most} bytes");
    assert!(volume.reclaim(u64::MAX) > most);
    assert_eq!(counted(&volume), before);
    root.unlink("/f").expect("it is there");
    volume.reclaim(u64::MAX);
    assert_eq!(counted(&volume), before);
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
