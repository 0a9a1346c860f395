//! What heat records of real operations, and what it tells.
#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in what its tests share as well"
)]

#[path = "heat/bounds.rs"]
mod bounds;
#[path = "heat/ends.rs"]
mod ends;
#[path = "heat/hand.rs"]
mod hand;
#[path = "support/one_core.rs"]
mod one_core;
#[path = "heat/truth.rs"]
mod truth;

use hand::{create, tracked};
use hearth::heat::{HeatRank, HeatTenant};
use hearth::{Credentials, Errno, Volume};
use std::time::Duration;

const MIB: u64 = 1 << 20;

#[test]
fn reads_and_writes_are_counted_per_file_and_per_range() {
    let (volume, process, _) = tracked();
    let fd = create(&process, "/f", 3 * MIB as usize);
    let mut buffer = vec![0; 4096];
    for _ in 0..5 {
        process.pread(fd, &mut buffer, MIB + 10).unwrap();
    }
    // Across the border of two ranges.
    process.pread(fd, &mut buffer, 2 * MIB - 1000).unwrap();
    let ino = process.fstat(fd).unwrap().ino;
    let file = volume.heat().file(ino).unwrap();
    assert_eq!(file.stats.read_bytes, 6 * 4096);
    assert_eq!(file.stats.written_bytes, 3 * MIB);
    let ranges = volume.heat().ranges(ino).unwrap();
    let starts: Vec<u64> = ranges.iter().map(|r| r.start).collect();
    assert_eq!(starts, [0, MIB, 2 * MIB]);
    let reads: Vec<(u64, u64)> = ranges
        .iter()
        .map(|r| (r.stats.reads, r.stats.read_bytes))
        .collect();
    assert_eq!(reads, [(0, 0), (6, 5 * 4096 + 1000), (1, 3096)]);
    assert!(ranges.iter().all(|r| r.stats.writes == 1));
}

#[test]
fn a_record_goes_with_its_file_and_its_tail_with_truncate() {
    let (volume, process, _) = tracked();
    let fd = create(&process, "/f", 3 * MIB as usize);
    let ino = process.fstat(fd).unwrap().ino;
    assert_eq!(volume.heat().ranges(ino).unwrap().len(), 3);
    process.ftruncate(fd, MIB + 1).unwrap();
    assert_eq!(volume.heat().ranges(ino).unwrap().len(), 2);
    process.rename("/f", "/g").unwrap();
    process.link("/g", "/h").unwrap();
    process.pwrite(fd, &[7; 4096], MIB - 1000).unwrap();
    let file = volume.heat().file(ino).unwrap().stats;
    // A call goes on a MiB at a time; one that goes over a border is one all the same.
    assert_eq!(
        (file.writes, file.written_bytes),
        (3 + 1, 3 * MIB + 4096),
        "one call"
    );
    let of_ranges = volume.heat().ranges(ino).unwrap();
    let writes: Vec<u64> = of_ranges.iter().map(|range| range.stats.writes).collect();
    assert_eq!(writes, [2, 2]);
    process.unlink("/g").unwrap();
    process.unlink("/h").unwrap();
    let names = &volume.heat().paths(&[ino]).unwrap()[&ino];
    assert_eq!(
        (names.links, &names.path),
        (0, &None),
        "open, without a name"
    );
    assert!(volume.heat().file(ino).is_ok());
    process.close(fd).unwrap();
    assert_eq!(volume.heat().top_files(HeatRank::Writes, 9, None), []);
    assert_eq!(volume.heat().gauges().files, 0);
    assert_eq!(volume.heat().gauges().ranges, 0);
}

#[test]
fn a_number_that_is_used_again_starts_cold() {
    let (volume, process, _) = tracked();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..3000 {
        let fd = create(&process, "/again", 100);
        let ino = process.fstat(fd).unwrap().ino;
        if !seen.insert(ino) {
            let warm = volume.heat().file(ino).unwrap().stats;
            assert_eq!((warm.reads, warm.writes), (0, 1));
            return;
        }
        process.close(fd).unwrap();
        process.unlink("/again").unwrap();
    }
    panic!("no number came back");
}

#[test]
fn rates_halve_and_rankings_follow() {
    let (volume, process, hand) = tracked();
    let (old, new) = (create(&process, "/old", 0), create(&process, "/new", 0));
    let mut byte = [0; 1];
    for fd in [old, new] {
        process.pwrite(fd, b"x", 0).unwrap();
    }
    for _ in 0..100 {
        process.pread(old, &mut byte, 0).unwrap();
    }
    let before = volume.heat().top_files(HeatRank::Reads, 1, None)[0].clone();
    hand.pass(Duration::from_secs(3600));
    let after = volume.heat().top_files(HeatRank::Reads, 1, None)[0].clone();
    assert!((before.stats.reads_per_second / 2.0 - after.stats.reads_per_second).abs() < 1e-9);
    for _ in 0..80 {
        process.pread(new, &mut byte, 0).unwrap();
    }
    let top = volume.heat().top_files(HeatRank::Reads, 10, None);
    let paths = volume
        .heat()
        .paths(&top.iter().map(|f| f.ino).collect::<Vec<_>>())
        .unwrap();
    let order: Vec<_> = top
        .iter()
        .map(|f| paths[&f.ino].path.clone().unwrap())
        .collect();
    assert_eq!(order, [b"/new".to_vec(), b"/old".to_vec()]);
    let lately = volume
        .heat()
        .top_files(HeatRank::Reads, 10, Some(Duration::from_secs(600)));
    assert_eq!(lately.len(), 1, "the other was read an hour ago");
}

#[test]
fn tenants_are_credited() {
    let (volume, process, _) = tracked();
    let fd = create(&process, "/f", 0);
    process.fchown(fd, Some(7), Some(8)).unwrap();
    process.pwrite(fd, &[0; 100], 0).unwrap();
    let heat = volume.heat();
    for tenant in [
        HeatTenant::User(7),
        HeatTenant::Group(8),
        HeatTenant::Project(0),
    ] {
        let row = heat.tenant(tenant).unwrap();
        assert_eq!((row.stats.writes, row.stats.written_bytes), (1, 100));
    }
    assert_eq!(heat.tenant(HeatTenant::User(0)), None);
    // To whom it belongs when the fold comes.
    process.mkdir("/tree", 0o755).unwrap();
    let inside = create(&process, "/tree/f", 0);
    volume.quota().set_project_tree("/tree", 9).unwrap();
    process.pwrite(inside, &[0; 50], 0).unwrap();
    let row = heat.tenant(HeatTenant::Project(9)).unwrap();
    assert_eq!((row.stats.writes, row.stats.written_bytes), (1, 50));
    let others = heat.tenant(HeatTenant::Project(0)).unwrap();
    assert_eq!((others.stats.writes, others.stats.written_bytes), (1, 100));
}

/// Sums of owners that never come back would be a leak: ids are 32 bits.
#[test]
fn sums_of_however_many_tenants_stay_bounded_and_the_busiest_are_kept() {
    const MOST: usize = 8_192;
    const ROUND: u32 = 100;
    let (volume, process, hand) = tracked();
    let heat = volume.heat();
    let busy = create(&process, "/busy", 0);
    process.fchown(busy, Some(1), Some(1)).unwrap();
    let fds: Vec<i32> = (0..ROUND)
        .map(|n| create(&process, format!("/{n}"), 0))
        .collect();
    let rounds = 120;
    let mut most_bytes = 0;
    for round in 0..rounds {
        for (n, &fd) in (0..).zip(&fds) {
            let id = 1000 + round * ROUND + n;
            process.fchown(fd, Some(id), Some(id)).unwrap();
            process.pwrite(fd, b"x", 0).unwrap();
        }
        (0..3).for_each(|_| assert_eq!(process.pwrite(busy, b"x", 0), Ok(1)));
        volume.run_background_once();
        hand.pass(Duration::from_secs(2));
        let rows = heat.tenants(HeatRank::Accesses).len();
        let seen = 3 + 2 * (round + 1) as usize * ROUND as usize;
        assert!(rows <= MOST && (seen > MOST || rows == seen), "{rows}");
        most_bytes = most_bytes.max(heat.gauges().tenant_bytes);
    }
    // Of a table that grows by doubling, with what one fold brings.
    assert!((1 << 20..4 << 20).contains(&most_bytes), "{most_bytes}");
    for tenant in [HeatTenant::User(1), HeatTenant::Group(1)] {
        let row = heat.tenant(tenant).unwrap();
        assert_eq!(row.stats.writes, 3 * u64::from(rounds));
    }
    let writes = heat.tenant(HeatTenant::Project(0)).unwrap().stats.writes;
    assert_eq!(writes, u64::from(rounds * (ROUND + 3)));
    let last = 1000 + rounds * ROUND - 1;
    assert!(
        heat.tenant(HeatTenant::User(last)).is_some(),
        "who came last"
    );
    assert_eq!(heat.tenant(HeatTenant::User(1000)), None, "who came first");
}

#[test]
fn nothing_is_recorded_while_it_is_off() {
    let (volume, process, _) = tracked();
    let fd = create(&process, "/f", 10);
    let ino = process.fstat(fd).unwrap().ino;
    volume.heat().switch(false);
    process.pwrite(fd, b"more", 0).unwrap();
    assert_eq!(volume.heat().file(ino).unwrap().stats.writes, 1);
    volume.heat().switch(true);
    process.pwrite(fd, b"more", 0).unwrap();
    assert_eq!(volume.heat().file(ino).unwrap().stats.writes, 2);
    let never = Volume::memory();
    let quiet = never.process(Credentials::root());
    let fd = create(&quiet, "/f", 10);
    let ino = quiet.fstat(fd).unwrap().ino;
    assert_eq!(never.heat().file(ino), Err(Errno::ENODATA));
    assert_eq!(never.heat().gauges().core_bytes, 0);
}

#[test]
fn tunables_are_checked() {
    let volume = Volume::memory();
    let heat = volume.heat();
    assert_eq!((heat.interval(), heat.memory()), (150, 0));
    for bad in [0, 86_401] {
        assert_eq!(heat.set_interval(bad), Err(Errno::EINVAL));
    }
    assert_eq!(heat.set_memory(1 << 21), Err(Errno::EINVAL));
    let hour = Duration::from_secs(3600);
    assert_eq!(heat.set_half_lives(hour, hour), Err(Errno::EINVAL));
    assert_eq!(
        heat.set_half_lives(Duration::ZERO, hour),
        Err(Errno::EINVAL)
    );
    assert_eq!((heat.interval(), heat.memory()), (150, 0));
}

#[test]
fn what_if_counts_what_there_is_of_a_range() {
    let (volume, process, _) = tracked();
    // A thousand small files, each used ten times, and a large one, used more often in all.
    let mut byte = [0; 1];
    for n in 0..1000 {
        let fd = create(&process, format!("/{n}"), 100);
        (0..10).for_each(|_| _ = process.pread(fd, &mut byte, 0).unwrap());
        process.close(fd).unwrap();
    }
    let large = create(&process, "/large", MIB as usize);
    (0..20).for_each(|_| _ = process.pread(large, &mut byte, 0).unwrap());
    let small = 1000 * 4096;
    let curve = volume.heat().what_if(&[small, small / 2, small + MIB]);
    assert_eq!(curve.recorded_bytes, small + MIB);
    let shares: Vec<f64> = curve.points.iter().map(|point| point.reads).collect();
    let all = 10_020.0;
    let exact = [5_000.0 / all, 10_000.0 / all, 1.0];
    let near = |(share, exact): (&f64, &f64)| (share - exact).abs() < 1e-6;
    assert!(shares.iter().zip(&exact).all(near), "{shares:?} {exact:?}");
}

/// Once, each range of a sparse file was a MiB.
#[test]
fn holes_are_in_no_histogram_and_take_no_room_of_a_fast_tier() {
    let (volume, process, _) = tracked();
    let fd = create(&process, "/sparse", 0);
    for n in 0..100 {
        (0..10).for_each(|_| _ = process.pwrite(fd, &[1; 4096], n * MIB).unwrap());
    }
    let heat = volume.heat();
    assert_eq!(heat.bytes_by_bucket().iter().sum::<u64>(), 100 * 4096);
    assert_eq!(heat.what_if(&[MIB]).recorded_bytes, 100 * 4096);
}

#[test]
fn files_age_in_the_background_and_also_while_tracking_is_off() {
    let (volume, process, hand) = tracked();
    let fd = create(&process, "/f", 100);
    (0..1000).for_each(|_| _ = process.pread(fd, &mut [0], 0).unwrap());
    let ino = process.fstat(fd).unwrap().ino;
    let stored = || volume.heat().info(ino, false).unwrap().temperature >> 24;
    volume.run_background_once();
    assert_eq!(stored(), 255);
    volume.heat().set_interval(80).unwrap();
    let mut before = stored();
    for on in [true, false] {
        volume.heat().switch(on);
        hand.pass(Duration::from_secs(3600));
        assert_eq!(stored(), before, "nobody has looked");
        volume.run_background_once();
        assert!(stored() < before * 6 / 10, "{} after {before}", stored());
        before = stored();
    }
}

#[test]
fn records_age_as_often_as_the_interval_says() {
    let (volume, process, hand) = tracked();
    let fd = create(&process, "/f", 100);
    (0..1000).for_each(|_| _ = process.pread(fd, &mut [0], 0).unwrap());
    let ino = process.fstat(fd).unwrap().ino;
    let stored = || volume.heat().info(ino, false).unwrap().temperature >> 24;
    volume.run_background_once();
    // An eighth of the records in an eighth of the interval; of few records it is all of them.
    for (interval, early, rest) in [(8000, 999, 1), (800, 99, 1)] {
        volume.heat().set_interval(interval).unwrap();
        let before = stored();
        hand.pass(Duration::from_secs(early));
        volume.run_background_once();
        assert_eq!(stored(), before, "{interval}: too early");
        hand.pass(Duration::from_secs(rest));
        volume.run_background_once();
        assert!(stored() < before, "{interval}: too late");
    }
}

#[test]
fn the_background_folds_without_being_asked() {
    let volume = Volume::builder()
        .hot_track(true)
        .background(true)
        .build()
        .unwrap();
    let process = volume.process(Credentials::root());
    create(&process, "/f", 100);
    let before = std::time::Instant::now();
    while volume.heat().gauges().files == 0 {
        assert!(before.elapsed() < Duration::from_secs(60), "nothing folds");
        std::thread::sleep(Duration::from_millis(20));
    }
}
