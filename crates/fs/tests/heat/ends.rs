//! Records end with what they are of, and begin with what was loaded.

use super::MIB;
use super::hand::{Hand, create, tracked};
use hearth::heat::HeatRank;
use hearth::home::TestHome;
use hearth::{Credentials, Process, Volume};
use std::sync::Arc;
use std::time::Duration;

/// A volume whose home takes objects out of memory.
fn evicting() -> (Volume, Process, Hand) {
    let hand = Hand::default();
    let volume = Volume::builder()
        .hot_track(true)
        .clock(hand.clone())
        .home(Arc::new(TestHome::new()))
        .build()
        .unwrap();
    let process = volume.process(Credentials::root());
    (volume, process, hand)
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
fn a_page_that_comes_from_the_home_is_counted_when_it_comes() {
    let (volume, process, _) = evicting();
    let fd = create(&process, "/f", 2 * MIB as usize);
    let ino = process.fstat(fd).unwrap().ino;
    volume.sync().unwrap();
    volume.reclaim(u64::MAX);
    let mut bytes = vec![0; 3 * 4096];
    process.pread(fd, &mut bytes, MIB - 4096).unwrap();
    process.pread(fd, &mut bytes, MIB - 4096).unwrap();
    let file = volume.heat().file(ino).unwrap().warm;
    assert_eq!((file.reads, file.loads), (2, 3));
    let ranges = volume.heat().ranges(ino).unwrap();
    let loads: Vec<u64> = ranges.iter().map(|range| range.warm.loads).collect();
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
