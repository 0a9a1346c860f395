//! Storing segments on a disk that forgets what was not synced.

use super::*;
use crate::disk::Disk;
use crate::disk::simulated::{Fault, SimulatedDisk};
use crate::segment::disk_folder::DiskFolder;
use hearth_sync::primitive::Arc;

/// Power cuts that are tried, with other losses each.
const CUTS: u64 = 24;

/// A disk with an empty folder of segments.
fn disk(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    disk.make_dir("segments").expect("a folder");
    disk.sync_dir("").expect("sync");
    disk
}

fn open(disk: &SimulatedDisk) -> Segments {
    let settings = Settings {
        volume: VOLUME,
        compression: Compression::None,
        cipher: None,
        next: 1,
        kept: 0,
    };
    Segments::open_on(Arc::new(disk.clone()), settings).expect("open")
}

/// Files below the folder of segments.
fn files(disk: &SimulatedDisk) -> Vec<String> {
    let names = disk.contents().into_keys();
    let is_file = |name: &String| name.starts_with("segments/") && name.len() > "segments/01".len();
    names.filter(is_file).collect()
}

#[test]
fn what_was_stored_survives_a_power_cut() {
    // Alone in a segment with others, and a segment of its own.
    for count in [40, 1100] {
        let disk = disk(count);
        let written = open(&disk).write(INO, GENERATION, &pages(0..count, 1));
        let written = written.expect("write");
        for seed in 0..CUTS {
            let found = open(&disk.crashed(seed));
            assert_eq!(found.list().expect("list"), [1], "cut {seed}");
            assert_eq!(read_back(&found, &written), pages(0..count, 1));
        }
    }
}

#[test]
fn a_folder_that_a_killed_process_made_is_durable_with_the_first_segment_in_it() {
    let disk = disk(1);
    disk.make_dir("segments/01").expect("a folder");
    let written = open(&disk).write(INO, GENERATION, &pages(0..3, 1));
    let written = written.expect("write");
    for seed in 0..CUTS {
        let disk = disk.crashed(seed);
        assert!(disk.contents().contains_key("segments/01"), "cut {seed}");
        assert_eq!(read_back(&open(&disk), &written), pages(0..3, 1));
    }
}

#[test]
fn whatever_step_fails_the_write_leaves_no_file_and_the_next_one_succeeds() {
    let mut failed = 0;
    for step in 0..24 {
        let disk = disk(step);
        let segments = open(&disk);
        disk.fail_at(disk.counts().steps + step, Fault::Device);
        let first = segments.write(INO, GENERATION, &pages(0..3, 1));
        if disk.counts().faults == 0 {
            continue;
        }
        failed += 1;
        assert!(first.is_err(), "step {step}");
        assert_eq!(files(&disk), [""; 0], "step {step}");
        let written = segments.write(INO, GENERATION, &pages(0..3, 2));
        let written = written.expect("write");
        let found = open(&disk.crashed(step));
        assert_eq!(read_back(&found, &written), pages(0..3, 2));
    }
    // Make the folder, create, write thrice, rename, three syncs.
    assert!(failed >= 9, "{failed} steps");
}

#[test]
fn what_a_crash_left_of_an_upload_with_the_same_number_is_in_nobodys_way() {
    let disk = disk(1);
    disk.make_dir("segments/01").expect("a folder");
    let left = disk.create("segments/01/0000000000000001#1");
    left.and_then(|file| file.write_at(0, &[7; 100_000]))
        .expect("write");
    let segments = open(&disk);
    let written = segments.write(INO, GENERATION, &pages(0..3, 1));
    assert_eq!(
        read_back(&segments, &written.expect("write")),
        pages(0..3, 1)
    );
    assert_eq!(files(&disk), ["segments/01/0000000000000001"]);
}

#[test]
fn a_segment_costs_a_sync_of_its_file_and_one_of_its_folder() {
    let disk = disk(1);
    let folder = DiskFolder::new(Arc::new(disk.clone()));
    let syncs = |number| {
        let before = disk.counts().syncs;
        folder
            .put(number, &[Bytes::from_static(b"bytes")])
            .expect("put");
        disk.counts().syncs - before
    };
    // The first one of a folder has its name made durable too.
    assert_eq!([1, 0x101, 2, 0x201, 0x102].map(syncs), [3, 2, 3, 2, 2]);
}

/// A sync of somebody else waits behind what the disk gets at once.
#[test]
fn the_disk_begins_with_a_large_segment_before_its_end() {
    let started = |count: u64| {
        let disk = disk(count);
        let written = open(&disk).write(INO, GENERATION, &pages(0..count, 1));
        written.expect("write");
        disk.counts().bytes_started
    };
    assert!(started(1100) >= 4 << 20, "all but the last part");
    assert_eq!(started(40), 0, "its sync begins with a small one");
}
