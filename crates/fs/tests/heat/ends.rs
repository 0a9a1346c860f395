//! Records end with what they are of, and begin with what was loaded.

use super::MIB;
use super::hand::{Hand, create, tracked};
use hearth::backend::TestBackend;
use hearth::heat::HeatRank;
use hearth::{Credentials, Errno, Process, Volume};
use std::sync::Arc;
use std::time::Duration;

/// A volume whose backend takes objects out of memory.
fn evicting() -> (Volume, Process, Hand) {
    let hand = Hand::default();
    let volume = Volume::builder()
        .hot_track(true)
        .clock(hand.clone())
        .backend(Arc::new(TestBackend::new()))
        .build()
        .unwrap();
    let process = volume.process(Credentials::root());
    (volume, process, hand)
}

/// Keeps this thread on the `n`th core that it may use, if there are so many: numbers of inodes
/// that end are used again by the core where they ended.
fn stay_on(n: usize) {
    // SAFETY: the sets are plain data, the calls get their true size, the numbers are inside.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&all), &raw mut all);
        let core = (0..1024).filter(|&core| libc::CPU_ISSET(core, &all)).nth(n);
        if let Some(core) = core {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
        }
    }
}

fn records(volume: &Volume) -> (u64, u64) {
    // A report folds first.
    let _ = volume.heat().top_files(HeatRank::Accesses, 1, None);
    let gauges = volume.heat().gauges();
    (gauges.files, gauges.ranges)
}

#[test]
fn what_was_counted_behind_a_new_end_is_not_recorded() {
    let (volume, process, _) = tracked();
    let fd = create(&process, "/f", 3 * MIB as usize);
    process.ftruncate(fd, MIB).unwrap();
    assert_eq!(records(&volume), (1, 1));
    process.ftruncate(fd, 0).unwrap();
    process.pwrite(fd, b"x", 5 * MIB).unwrap();
    assert_eq!(records(&volume), (1, 1));
    let ino = process.fstat(fd).unwrap().ino;
    assert_eq!(volume.heat().ranges(ino).unwrap()[0].start, 5 * MIB);
}

#[test]
fn a_page_that_comes_from_the_backend_is_counted_when_it_comes() {
    let (volume, process, _) = evicting();
    let fd = create(&process, "/f", 2 * MIB as usize);
    let ino = process.fstat(fd).unwrap().ino;
    volume.sync().unwrap();
    volume.reclaim(u64::MAX);
    let mut bytes = vec![0; 3 * 4096];
    process.pread(fd, &mut bytes, MIB - 4096).unwrap();
    process.pread(fd, &mut bytes, MIB - 4096).unwrap();
    let file = volume.heat().file(ino).unwrap().stats;
    // Each page counts, although the three of a read come together.
    assert_eq!((file.reads, file.loads), (2, 3));
    let ranges = volume.heat().ranges(ino).unwrap();
    let loads: Vec<u64> = ranges.iter().map(|range| range.stats.loads).collect();
    assert_eq!(loads, [1, 2]);
}

#[test]
fn a_file_that_was_out_of_memory_takes_its_records_along_when_it_ends() {
    let (volume, process, _) = evicting();
    // More than the cells have room for word of.
    for n in 0..3000 {
        let fd = create(&process, format!("/{n}"), 10);
        process.close(fd).unwrap();
        if n % 500 == 499 {
            assert!(records(&volume).0 > 0);
        }
    }
    volume.sync().unwrap();
    volume.reclaim(u64::MAX);
    assert!(volume.inodes_in_memory() < 100, "they are out");
    for n in 0..3000 {
        process.unlink(format!("/{n}")).unwrap();
    }
    assert_eq!(records(&volume), (0, 0));
}

#[test]
fn a_file_that_was_out_of_memory_loses_what_is_cut_off() {
    let (volume, process, _) = evicting();
    let fd = create(&process, "/f", 3 * MIB as usize);
    process.close(fd).unwrap();
    assert_eq!(records(&volume), (1, 3));
    volume.sync().unwrap();
    volume.reclaim(u64::MAX);
    process.truncate("/f", MIB).unwrap();
    assert_eq!(records(&volume), (1, 1));
}

#[test]
fn files_that_end_while_tracking_is_off_leave_nothing() {
    let (volume, process, hand) = tracked();
    for n in 0..3000 {
        let fd = create(&process, format!("/{n}"), 10);
        process.close(fd).unwrap();
        if n % 500 == 499 {
            volume.run_background_once();
        }
    }
    assert!(volume.heat().gauges().files > 2000);
    volume.heat().switch(false);
    for n in 0..3000 {
        process.unlink(format!("/{n}")).unwrap();
    }
    for _ in 0..9 {
        hand.pass(Duration::from_secs(20));
        volume.run_background_once();
    }
    let gauges = volume.heat().gauges();
    assert_eq!((gauges.files, gauges.ranges), (0, 0));
}

#[test]
fn files_that_have_ended_take_no_place_of_others_in_a_ranking() {
    let (volume, process, _) = tracked();
    let cold = create(&process, "/cold", 10);
    let cold = process.fstat(cold).unwrap().ino;
    for n in 0..1500 {
        let fd = create(&process, format!("/{n}"), 10);
        process.pwrite(fd, b"again", 0).unwrap();
        process.close(fd).unwrap();
    }
    assert_eq!(records(&volume).0, 1501);
    // Of more than a quarter of a core's ring no word is left: the sweep will find them.
    for n in 0..1500 {
        process.unlink(format!("/{n}")).unwrap();
    }
    let top = volume.heat().top_files(HeatRank::Writes, 10, None);
    assert_eq!(top.iter().map(|row| row.ino).collect::<Vec<_>>(), [cold]);
}

/// Once, they were a MiB each of the histogram, and an export gave what was known of them to the
/// files that got their numbers.
#[test]
fn files_that_have_ended_are_in_no_histogram_and_no_export() {
    stay_on(0);
    let (volume, process, _) = tracked();
    let mut ended = Vec::new();
    let files = 6000;
    for n in 0..files {
        let fd = create(&process, format!("/{n}"), 10);
        ended.push(process.fstat(fd).unwrap().ino);
        process.close(fd).unwrap();
        if n % 500 == 499 {
            assert!(records(&volume).0 > 0);
        }
    }
    for n in 0..files {
        process.unlink(format!("/{n}")).unwrap();
    }
    let (left, _) = records(&volume);
    assert!(left > 0, "word of each end was left");
    let again = (0..files).filter(|n| {
        let flags = libc::O_CREAT | libc::O_RDWR;
        let fd = process.open(format!("/new {n}"), flags, 0o600).unwrap();
        let ino = process.fstat(fd).unwrap().ino;
        process.close(fd).unwrap();
        ended.contains(&ino)
    });
    assert!(again.count() as u64 > files - left, "numbers came back");
    assert_eq!(volume.heat().export(0, 1 << 20).unwrap().records, []);
    assert_eq!(volume.heat().bytes_by_bucket().iter().sum::<u64>(), 0);
}

/// Once, only truncate did so: the ranges behind stayed for good.
#[test]
fn what_a_collapsed_file_no_longer_reaches_has_no_records() {
    let (volume, process, _) = tracked();
    let fd = create(&process, "/f", 4 * MIB as usize);
    assert_eq!(records(&volume), (1, 4));
    let collapse = libc::FALLOC_FL_COLLAPSE_RANGE;
    process.fallocate(fd, collapse, MIB, 2 * MIB).unwrap();
    assert_eq!(records(&volume), (1, 2));
}

/// Once, it was stale although its record was there.
#[test]
fn a_file_out_of_memory_is_asked_for_as_any_other() {
    let (volume, process, _) = evicting();
    let bare = volume.inodes_in_memory();
    let fd = create(&process, "/f", 2 * MIB as usize);
    process.fchown(fd, Some(7), Some(7)).unwrap();
    let ino = process.fstat(fd).unwrap().ino;
    process.close(fd).unwrap();
    assert_eq!(records(&volume), (1, 2));
    let heat = volume.heat();
    let gone = || {
        volume.sync().unwrap();
        volume.reclaim(u64::MAX);
        assert_eq!(volume.inodes_in_memory(), bare, "it is out");
    };
    gone();
    assert_eq!(heat.file(ino).unwrap().stats.writes, 2);
    gone();
    assert_eq!(heat.ranges(ino).unwrap().len(), 2);
    gone();
    assert_eq!(heat.info(ino, true).unwrap().writes, 2);
    gone();
    assert!(heat.may_see(7, Some(ino)) && !heat.may_see(8, Some(ino)));
    assert_eq!(heat.file(1 << 40), Err(Errno::ESTALE));
}
