//! The disks and the rounds, tried on ext4: what it gives is the right value for the store.

#![allow(clippy::unwrap_used)]

use hearth_testing::disk::SlowDisk;
use hearth_testing::forgetting::Options;
use hearth_testing::rounds::{self, Workload};
use hearth_testing::threads::SetOnDrop;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const BYTES: u64 = 512 << 20;

#[test]
fn a_slow_disk_counts_its_flushes_and_takes_its_time() {
    let disk = SlowDisk::new(BYTES, Options::default()).unwrap();
    let file = File::create(disk.path().join("file")).unwrap();
    file.sync_all().unwrap();
    disk.set_delay(Duration::from_millis(20));
    let before = disk.counts().unwrap();
    let start = Instant::now();
    for turn in 0..5 {
        fs::write(disk.path().join("file"), [turn; 4096]).unwrap();
        file.sync_all().unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(100));
    let counts = disk.counts().unwrap().since(before);
    assert!(counts.flushes >= 5, "{counts:?}");
    assert!(counts.bytes_written >= 5 * 4096, "{counts:?}");
}

#[test]
fn ext4_keeps_its_promises_over_power_cuts() {
    let mut disk = SlowDisk::new(BYTES, Options::default()).unwrap();
    let mut workloads = rounds::workloads(1);
    let kept = rounds::run(&mut disk, &mut workloads, 6, 1, |_| Ok(()));
    let acknowledged = kept.unwrap();
    assert!(acknowledged > 50, "{acknowledged}");
}

/// So that a check that looks at nothing is found.
#[test]
fn each_workload_sees_what_is_lost() {
    let place = hearth_testing::place::Place::new("lost").unwrap();
    for mut workload in rounds::workloads(1) {
        let at = place.directory(workload.name()).unwrap();
        work(&mut *workload, &at);
        workload.check(&at).unwrap();
        fs::remove_dir_all(&at).unwrap();
        fs::create_dir(&at).unwrap();
        let said = workload.check(&at).unwrap_err();
        assert!(!said.is_empty(), "{}", workload.name());
    }
}

fn work(workload: &mut dyn Workload, at: &Path) {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&end);
        scope.spawn(|| workload.work(at, &end));
        std::thread::sleep(Duration::from_millis(700));
    });
}
