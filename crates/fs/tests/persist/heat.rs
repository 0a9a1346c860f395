//! Heat of files, ranges and tenants.

use super::{World, create, root};
use hearth::heat::{HeatRank, HeatStats};
use hearth::{Credentials, Process, Volume};
use std::sync::atomic::Ordering;
use std::time::Duration;

const MIB: usize = 1 << 20;
const HOUR: Duration = Duration::from_secs(3600);

fn tracked(world: &World) -> Volume {
    world.builder().hot_track(true).build().expect("opens")
}

fn read(process: &Process, path: &str, times: usize, at: u64) {
    let fd = process.open(path, libc::O_RDONLY, 0).unwrap();
    for _ in 0..times {
        process.pread(fd, &mut [0; 512], at).unwrap();
    }
    process.close(fd).unwrap();
}

/// Forty files, the first ones hotter; one of them is large.
fn use_files(volume: &Volume) {
    let process = root(volume);
    for file in 0..40 {
        create(&process, &format!("/{file}"), 3 * MIB).unwrap();
        for range in 0..3 {
            let times = 2 * (40 - file) + range;
            read(&process, &format!("/{file}"), times, (range * MIB) as u64);
        }
    }
    process.truncate("/5", 200 * MIB as u64).unwrap();
    read(&process, "/5", 30, 150 * MIB as u64);
    process.chown("/7", Some(1000), Some(500)).unwrap();
    let user = volume.process(Credentials::user(1000, 500));
    read(&user, "/7", 100, 0);
}

/// What it says of files, of ranges and of tenants, by a name, in order.
fn report(volume: &Volume) -> [Vec<(String, HeatStats)>; 3] {
    let heat = volume.heat();
    let files = heat.top_files(HeatRank::Accesses, 1000, None);
    let ranges = heat.top_ranges(HeatRank::Accesses, 1000, None);
    let tenants = heat.tenants(HeatRank::Accesses);
    [
        files
            .into_iter()
            .map(|file| (file.ino.to_string(), file.stats))
            .collect(),
        ranges
            .into_iter()
            .map(|range| (format!("{}+{}", range.ino, range.start), range.stats))
            .collect(),
        tenants
            .into_iter()
            .map(|tenant| (format!("{:?}", tenant.tenant), tenant.stats))
            .collect(),
    ]
}

/// The same heat after `halved` short half-lives.
fn check_same(before: &HeatStats, after: &HeatStats, halved: f64, who: &str) {
    let counts = |stats: &HeatStats| {
        let bytes = (stats.read_bytes, stats.written_bytes);
        (stats.reads, stats.writes, bytes, stats.loads)
    };
    assert_eq!(counts(before), counts(after), "{who}");
    let times = |stats: &HeatStats| (stats.last_read, stats.last_write);
    assert_eq!(times(before), times(after), "{who}");
    let factor = (-halved).exp2();
    for (then, now) in [
        (before.temperature, after.temperature),
        (before.reads_per_second, after.reads_per_second),
        (before.writes_per_second, after.writes_per_second),
        (before.bytes_per_second, after.bytes_per_second),
    ] {
        let expected = then * factor;
        assert!(
            (now - expected).abs() <= 1e-5 * expected,
            "{who}: {now} for {expected}"
        );
    }
}

fn check_report(
    before: &[Vec<(String, HeatStats)>; 3],
    after: &[Vec<(String, HeatStats)>; 3],
    halved: f64,
) {
    for (before, after) in before.iter().zip(after) {
        let names = |rows: &[(String, HeatStats)]| -> Vec<String> {
            rows.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(before), names(after));
        for ((who, before), (_, after)) in before.iter().zip(after) {
            check_same(before, after, halved, who);
        }
    }
}

#[test]
fn heat_of_files_ranges_and_tenants_is_as_before_but_for_the_time_since() {
    let mut world = World::default();
    let volume = tracked(&world);
    use_files(&volume);
    let before = report(&volume);
    assert_eq!(before[0].len(), 40, "of forty files");
    assert!(before[1].len() > 120, "and their ranges");
    volume.sync().unwrap();
    world.crash(volume);

    world.hand.pass(2 * HOUR);
    world.hand.restart();
    let volume = tracked(&world);
    check_report(&before, &report(&volume), 2.0);
    // Once more, with nothing but the time between.
    world.close(volume);
    world.hand.pass(HOUR);
    let volume = world.builder().build().expect("opens");
    check_report(&before, &report(&volume), 3.0);
    world.crash(volume);
}

#[test]
fn other_half_lives_since_a_record_was_kept_change_no_rate() {
    let mut world = World::default();
    let volume = tracked(&world);
    use_files(&volume);
    world.close(volume);
    let volume = tracked(&world);
    let lives = [600, 7200].map(Duration::from_secs);
    volume.heat().set_half_lives(lives[0], lives[1]).unwrap();
    let before = report(&volume);
    world.close(volume);
    let volume = tracked(&world);
    check_report(&before, &report(&volume), 0.0);
    world.crash(volume);
}

#[test]
fn files_that_are_gone_leave_no_heat_also_if_a_crash_lost_the_news() {
    let mut world = World::default();
    let volume = tracked(&world);
    let process = root(&volume);
    for file in ["/stays", "/goes", "/shrinks", "/goes-later"] {
        create(&process, file, 3 * MIB).unwrap();
        read(&process, file, 5, 2 * MIB as u64);
    }
    process.unlink("/goes").unwrap();
    volume.sync().unwrap();
    // The backend hears that these change, the heat is not kept before the crash.
    process.unlink("/goes-later").unwrap();
    process.truncate("/shrinks", MIB as u64).unwrap();
    let fd = process.open("/stays", libc::O_RDONLY, 0).unwrap();
    process.fsync(fd).unwrap();
    let inos = ["/stays", "/shrinks"].map(|file| process.stat(file).unwrap().ino);
    world.crash(volume);

    let volume = tracked(&world);
    volume.run_background_once();
    let heat = volume.heat();
    let files = heat.top_files(HeatRank::Accesses, 10, None);
    let mut found: Vec<u64> = files.iter().map(|file| file.ino).collect();
    found.sort_unstable();
    assert_eq!(found, inos);
    let ranges = heat.top_ranges(HeatRank::Accesses, 100, None);
    let of = |ino| ranges.iter().filter(|range| range.ino == ino).count();
    assert_eq!(inos.map(of), [3, 1]);
    // Nothing is left of them in the backend either.
    root(&volume).unlink("/stays").unwrap();
    root(&volume).unlink("/shrinks").unwrap();
    world.close(volume);
    assert!(
        !world
            .keys()
            .iter()
            .any(|key| key.starts_with("heat/files/"))
    );
}

#[test]
fn only_what_changed_is_kept_and_at_most_every_few_minutes() {
    let mut world = World::default();
    let volume = tracked(&world);
    let process = root(&volume);
    let fds: Vec<i32> = (0..50)
        .map(|file| {
            let path = format!("/{file}");
            create(&process, &path, 512).unwrap();
            process.open(&path, libc::O_RDONLY, 0).unwrap()
        })
        .collect();
    volume.sync().unwrap();
    let commits = world.count_commits();
    volume.set_atime(hearth::AtimeMode::No);
    // No access time is moved: what is left is the heat. An fsync commits it if it was kept.
    let mut kept = 0;
    for minute in 0..30 {
        world.hand.pass(Duration::from_secs(60));
        process.pread(fds[minute], &mut [0; 9], 0).unwrap();
        let before = commits.load(Ordering::SeqCst);
        for _ in 0..20 {
            volume.run_background_once();
        }
        process.fsync(fds[0]).unwrap();
        kept += commits.load(Ordering::SeqCst) - before;
    }
    assert!((5..=6).contains(&kept), "{kept} times in half an hour");
    world.crash(volume);
}

#[test]
fn the_memory_cap_bounds_what_is_kept_and_taken_up() {
    let mut world = World::default();
    let volume = tracked(&world);
    let process = root(&volume);
    for file in 0..6000 {
        create(&process, &format!("/{file}"), 10).unwrap();
        if file % 500 == 0 {
            volume.run_background_once();
        }
    }
    volume.heat().set_memory(1).unwrap();
    volume.sync().unwrap();
    let gauges = volume.heat().gauges();
    world.close(volume);
    let volume = tracked(&world);
    let again = volume.heat().gauges();
    assert_eq!((again.files, again.ranges), (gauges.files, gauges.ranges));
    assert!(again.files > 1000 && again.record_bytes <= MIB as u64);
    world.crash(volume);
}
