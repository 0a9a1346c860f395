//! The memory that records take, and which of them are kept.

use crate::tracked;
use hearth::heat::HeatRank;
use std::collections::HashSet;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Touches `ranges` ranges, a hundredth of which are hot: each of those is read again and again,
/// `burst` times in a row, among the others, which are read once. Every sample is below a cap of
/// `cap` MiB, and every hot range has a record at the end.
fn check(files: u64, ranges: u64, cap: u64, burst: u64) {
    let (volume, process, hand) = tracked();
    let heat = volume.heat();
    heat.set_memory(cap).unwrap();
    let fds: Vec<i32> = (0..files)
        .map(|file| {
            let flags = libc::O_CREAT | libc::O_RDWR;
            let fd = process.open(format!("/{file}"), flags, 0o600).unwrap();
            process.ftruncate(fd, (ranges / files + 1) * MIB).unwrap();
            fd
        })
        .collect();
    let inodes: Vec<u64> = fds
        .iter()
        .map(|&fd| process.fstat(fd).unwrap().ino)
        .collect();
    let read = |range: u64| {
        let (fd, at) = (fds[(range % files) as usize], range / files * MIB);
        assert_eq!(process.pread(fd, &mut [0], at), Ok(1));
    };
    // Hot ranges lie among the others, all over the files.
    let hot = ranges / 100;
    let is_hot = |range: u64| range.is_multiple_of(100);
    let mut turn = 0;
    for range in 0..ranges {
        read(range);
        if !is_hot(range) {
            turn += 1;
            if turn % burst == 0 {
                (0..burst).for_each(|_| read(turn / burst % hot * 100));
            }
        }
        if range.is_multiple_of(200) {
            volume.run_background_once();
            // So that every range is recorded by itself.
            hand.pass(Duration::from_secs(2));
            if range.is_multiple_of(10_000) {
                let gauges = heat.gauges();
                assert!(gauges.record_bytes <= cap * MIB, "{gauges:?}");
            }
        }
    }
    volume.run_background_once();
    let gauges = heat.gauges();
    assert_eq!(gauges.dropped, 0);
    assert!(gauges.record_bytes <= cap * MIB, "{gauges:?}");
    let top = heat.top_ranges(HeatRank::Reads, hot as usize, None);
    let number = |ino: u64| inodes.iter().position(|&of| of == ino).unwrap() as u64;
    let kept: HashSet<u64> = top
        .iter()
        .map(|row| row.start / MIB * files + number(row.ino))
        .filter(|&range| is_hot(range))
        .collect();
    assert_eq!(kept.len() as u64, hot, "hot ranges have no record");
}

#[test]
fn ten_million_ranges_stay_below_the_cap_and_the_hottest_hundredth_keep_their_records() {
    check(1, 10_000_000, 64, 8);
}

#[test]
fn so_do_those_of_many_files() {
    check(1000, 1_000_000, 8, 1);
}
