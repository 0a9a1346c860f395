//! Heat: recording, folding, switching, truncating and ending at once. Every access is counted
//! once, and records of what has ended do not stay.

use hearth::heat::HeatRank;
use hearth::{Credentials, Process, Volume};

use crate::explore::{explore, task};

const SCHEDULES: usize = 300;

fn tracked() -> (Volume, Process) {
    let volume = Volume::builder().hot_track(true).build().unwrap();
    let process = volume.process(Credentials::root());
    (volume, process)
}

fn make(process: &Process, path: &str, bytes: usize) -> i32 {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
    let fd = process.open(path, flags, 0o600).unwrap();
    if bytes > 0 {
        process.write(fd, &vec![1; bytes]).unwrap();
    }
    fd
}

/// Files and ranges with records, after one more fold.
fn records(volume: &Volume) -> (u64, u64) {
    volume.run_background_once();
    let gauges = volume.heat().gauges();
    (gauges.files, gauges.ranges)
}

#[test]
fn a_file_that_ends_beside_a_fold_leaves_no_record() {
    explore(SCHEDULES, &["recorded", "too late"], || {
        let (volume, process) = tracked();
        let fd = make(&process, "/a", 10);
        // A report folds first.
        let folder = task(&volume, |volume, _| {
            let heat = volume.heat();
            heat.top_files(Default::default(), 1, None).len()
        });
        process.unlink("/a").unwrap();
        process.close(fd).unwrap();
        let seen = folder.join().unwrap();
        // One more fold takes word of the end; no sweep has to look for it.
        assert_eq!(records(&volume), (0, 0));
        if seen > 0 { "recorded" } else { "too late" }
    });
}

#[test]
fn every_access_is_counted_once_however_folds_and_lines_meet() {
    explore(SCHEDULES, &["all at the end", "some before"], || {
        let (volume, process) = tracked();
        // More than lines, so that lines change hands.
        let files: Vec<i32> = (0..6)
            .map(|n| make(&process, &format!("/{n}"), 0))
            .collect();
        let reader = task(&volume, |_, process| {
            for n in [0, 1, 2, 3, 4, 5, 0, 1, 2] {
                let fd = process.open(format!("/{n}"), libc::O_RDWR, 0).unwrap();
                process.pwrite(fd, b"x", 0).unwrap();
                process.close(fd).unwrap();
            }
        });
        // Folds, as every report does.
        let before: u64 = rows(&volume).iter().map(|row| row.1).sum();
        reader.join().unwrap();
        let mut exact: Vec<(u64, u64)> = files
            .iter()
            .zip([2, 2, 2, 1, 1, 1])
            .map(|(&fd, writes)| (process.fstat(fd).unwrap().ino, writes))
            .collect();
        exact.sort_unstable();
        assert_eq!(rows(&volume), exact);
        assert_eq!(volume.heat().gauges().dropped, 0);
        if before > 0 {
            "some before"
        } else {
            "all at the end"
        }
    });
}

/// Inode and writes of each file with a record, by inode.
fn rows(volume: &Volume) -> Vec<(u64, u64)> {
    let top = volume.heat().top_files(HeatRank::Writes, 100, None);
    let mut rows: Vec<_> = top.iter().map(|row| (row.ino, row.stats.writes)).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn switching_beside_recording_loses_nothing_but_what_came_while_it_was_off() {
    explore(SCHEDULES, &["none missed", "some missed"], || {
        let (volume, process) = tracked();
        let fd = make(&process, "/a", 0);
        let ino = process.fstat(fd).unwrap().ino;
        let switch = task(&volume, |volume, _| {
            volume.heat().switch(false);
            volume.run_background_once();
            volume.heat().switch(true);
        });
        for _ in 0..3 {
            process.pwrite(fd, b"x", 0).unwrap();
        }
        switch.join().unwrap();
        process.pwrite(fd, b"x", 0).unwrap();
        let writes = volume.heat().file(ino).unwrap().stats.writes;
        assert!((1..=4).contains(&writes), "{writes} of 4");
        if writes == 4 {
            "none missed"
        } else {
            "some missed"
        }
    });
}

#[test]
fn a_truncate_beside_a_fold_leaves_nothing_when_the_file_ends() {
    explore(SCHEDULES, &["cut"], || {
        let (volume, process) = tracked();
        let fd = make(&process, "/a", 0);
        process.ftruncate(fd, 100 << 20).unwrap();
        // One range of the file's own part, one that may lie apart.
        for at in [0, 99 << 20] {
            process.pread(fd, &mut [0], at).unwrap();
        }
        let folder = task(&volume, |volume, _| volume.run_background_once());
        process.ftruncate(fd, 1).unwrap();
        folder.join().unwrap();
        let (_, ranges) = records(&volume);
        process.rename("/a", "/b").unwrap();
        process.unlink("/b").unwrap();
        process.close(fd).unwrap();
        assert_eq!(records(&volume), (0, 0));
        if ranges == 1 { "cut" } else { "after it" }
    });
}
