//! Full disks, room that does not come back, and disks that break.

use crate::case::{Case, FAILURES, Failure};
use crate::harness::Random;
use hearth_testing::forgetting::Fault;
use hearth_testing::threads::SetOnDrop;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// Bytes that anybody may still write.
fn free(c: &Case) -> u64 {
    let room = statvfs(c.root()).unwrap();
    room.f_bavail * room.f_frsize
}

fn is_full(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOSPC)
}

/// Writes MiBs of noise until there is no room; what was taken, and whether a sync said at the end
/// that it is durable.
fn fill_telling(c: &Case, name: &str) -> (u64, bool) {
    let mut file = File::create(c.at(name)).unwrap();
    let (mut taken, mut random, mut is_told) = (0, Random(7), false);
    let block = random.bytes(MIB);
    loop {
        match file.write(&block) {
            Ok(count) => taken += count as u64,
            Err(error) => {
                assert!(is_full(&error), "{error}");
                break;
            }
        }
        assert!(taken < 1 << 30, "more was taken than the disk has");
        if taken.is_multiple_of(16 << 20)
            && let Err(error) = file.sync_data()
        {
            assert!(is_full(&error), "{error}");
            // A later sync does not say it again.
            is_told = true;
            break;
        }
    }
    // If not before, the error comes here.
    let synced = file.sync_all();
    if let Err(error) = &synced {
        assert!(is_full(error), "{error}");
    }
    let is_durable = synced.is_ok() && !is_told;
    (file.metadata().unwrap().len(), is_durable)
}

/// [`fill_telling`], for what was taken alone.
fn fill(c: &Case, name: &str) -> u64 {
    fill_telling(c, name).0
}

/// Waits until as much is free as `most` but for a tenth: room that was given back comes with a
/// commit and idle work, some of it ten seconds later.
fn wait_for_room(c: &Case, most: u64) {
    let end = Instant::now() + Duration::from_secs(40);
    while free(c) < most / 10 * 9 {
        assert!(
            Instant::now() < end,
            "{} of {most} bytes came back",
            free(c)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The error of `fsync` goes to whoever asks; which files lost what is for the owner of the volume.
#[test]
fn what_a_full_disk_loses_is_told_by_file() {
    let c = Case::on_a_small_disk();
    c.mkdir("d");
    let (_, is_durable) = fill_telling(&c, "d/big");
    assert!(!is_durable, "the kernel takes more than the disk has");
    let mut events = crate::harness::hearth();
    let events = events.args(["quota", "events", "--json"]).arg(c.root());
    let text = crate::harness::succeed(events);
    let lost: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &serde_json::Value| event["what"] == "write-lost")
        .collect();
    assert!(!lost.is_empty(), "{text}");
    for event in lost {
        assert_eq!(event["errno"], "ENOSPC", "{event}");
        assert_eq!(event["path"], "/d/big", "{event}");
    }
}

/// SR23: on a full filesystem removing took room, or failed.
#[test]
fn sr23_on_a_full_volume_whatever_gives_room_works_and_the_room_comes_back() {
    let c = Case::on_a_small_disk();
    c.mkdir("d");
    c.put("d/old", vec![1; 100_000]);
    c.put("d/new", vec![2; 100_000]);
    c.sync(".");
    let (mut fitted, most) = (Vec::new(), free(&c));
    for round in 0..5 {
        fitted.push(fill(&c, "big"));
        for n in 0..100_000 {
            match fs::write(c.at(&format!("d/small{n}")), [3; 4096]) {
                Err(error) if is_full(&error) => break,
                done => done.unwrap(),
            }
        }
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(c.at("d/old"), mode).unwrap();
        File::options()
            .write(true)
            .open(c.at("big"))
            .unwrap()
            .set_len(4_000)
            .unwrap();
        if round == 0 {
            c.rename("d/new", "d/old");
        }
        for name in c.names("d") {
            if name != "old" {
                c.unlink(&format!("d/{name}"));
            }
        }
        c.unlink("big");
        c.sync(".");
        wait_for_room(&c, most);
    }
    let least = fitted.iter().min().unwrap();
    assert!(least * 100 >= fitted[0] * 90, "it shrinks: {fitted:?}");
    assert!(c.read("d/old") == vec![2; 100_000]);
    c.check();
}

/// SR26: after "no space" an engine answers errors for ever.
#[test]
fn sr26_a_second_after_room_was_made_writes_work_again() {
    let mut c = Case::on_a_small_disk();
    c.put("before", "x");
    c.sync("before");
    let below = c.kept().parent().unwrap().join("ballast");
    let ballast = File::create(&below).unwrap();
    let room = statvfs(&below).unwrap();
    let most = (room.f_bavail * room.f_frsize).saturating_sub(24 << 20);
    fallocate(&ballast, FallocateFlags::empty(), 0, most).unwrap();
    fill(&c, "big");
    for n in 0..200 {
        // Some of them are in the middle of a commit when there is no room.
        let name = c.at(&format!("n{n}"));
        let done = File::create(name).and_then(|mut file| {
            file.write_all(&[1; 20_000])?;
            file.sync_all()
        });
        assert!(done.as_ref().err().is_none_or(is_full), "{done:?}");
    }
    drop(ballast);
    fs::remove_file(&below).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    c.put("after", "y");
    c.sync("after");
    c.cut();
    assert_eq!(
        (c.read("before"), c.read("after")),
        (b"x".to_vec(), b"y".to_vec())
    );
}

/// SR32: a full disk was reported as success.
#[test]
fn sr32_what_was_taken_before_the_disk_was_full_stays() {
    let mut c = Case::on_a_small_disk();
    let (size, is_durable) = fill_telling(&c, "big");
    let want = Random(7).bytes(MIB);
    c.fail(Failure::Unmount);
    let bytes = c.read("big");
    // The kernel takes writes before the disk is asked. Who was told that there is no room has a
    // beginning of what was taken; who was told nothing has all.
    let least = if is_durable { size } else { size / 10 * 9 };
    assert!(
        (least..=size).contains(&(bytes.len() as u64)),
        "{} of {size} bytes, durable: {is_durable}",
        bytes.len()
    );
    let pages = bytes.chunks(4096).zip(want.chunks(4096).cycle());
    for (n, (page, want)) in pages.enumerate() {
        // A page for which there was no room is a hole.
        let is_lost = !is_durable && page.iter().all(|&byte| byte == 0);
        assert!(
            is_lost || page == &want[..page.len()],
            "page {n} is another"
        );
    }
}

/// SR33: what `df` says was wrong.
#[test]
fn sr33_as_much_fits_as_df_says_and_it_comes_back() {
    let c = Case::on_a_small_disk();
    let before = free(&c);
    let fitted = fill(&c, "big");
    let share = fitted as f64 / before as f64;
    assert!((0.9..1.06).contains(&share), "{fitted} of {before} bytes");
    c.unlink("big");
    c.sync(".");
    let end = Instant::now() + Duration::from_secs(60);
    while free(&c) < before / 100 * 95 {
        assert!(
            Instant::now() < end,
            "{} of {before} bytes came back",
            free(&c)
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    let file = File::create(c.at("sparse")).unwrap();
    file.set_len(before / 10 * 8).unwrap();
    assert!(free(&c) > before / 100 * 90, "a hole takes room");
}

/// SR37: files that were unlinked while they were open stayed for ever.
#[test]
fn sr37_what_was_unlinked_while_it_was_open_gives_its_room_back() {
    for failure in FAILURES {
        let mut c = Case::on_a_small_disk();
        c.sync(".");
        let before = free(&c);
        let open: Vec<File> = (0..20)
            .map(|n| {
                let name = format!("f{n}");
                c.put(&name, Random(n).bytes(5 * MIB));
                let file = File::open(c.at(&name)).unwrap();
                file.sync_all().unwrap();
                c.unlink(&name);
                file
            })
            .collect();
        c.sync(".");
        if failure == Failure::Unmount {
            drop(open);
            c.fail(failure);
        } else {
            c.fail(failure);
            drop(open);
        }
        let end = Instant::now() + Duration::from_secs(60);
        while free(&c) < before / 100 * 95 {
            assert!(
                Instant::now() < end,
                "{failure:?}: {} of {before}",
                free(&c)
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(c.names(".").is_empty());
    }
}

/// SR39: an idle filesystem wrote for hours.
#[test]
fn sr39_an_idle_volume_writes_nothing() {
    let c = Case::new();
    for n in 0..2_000 {
        c.put(&format!("f{n}"), "x");
    }
    let end = Instant::now() + Duration::from_secs(90);
    loop {
        let before = c.counts();
        std::thread::sleep(Duration::from_secs(12));
        if c.counts() == before {
            break;
        }
        assert!(
            Instant::now() < end,
            "it still writes: {before:?}, {:?}",
            c.counts()
        );
    }
}

/// SR19: a sync failed once and the next one, which had lost the data, succeeded.
#[test]
fn sr19_after_a_failed_sync_none_succeeds_until_the_volume_is_mounted_again() {
    let mut c = Case::new();
    c.put("old", "old");
    c.sync("old");
    let reader = File::open(c.at("old")).unwrap();
    let kept = [const { AtomicU64::new(0) }; 16];
    let end = AtomicBool::new(false);
    let liars = std::thread::scope(|scope| {
        let end_of_all = SetOnDrop(&end);
        let loops = kept.each_ref().map(|kept| {
            let (c, end) = (&c, &end);
            let name = format!("l{:p}", kept);
            scope.spawn(move || {
                let mut has_failed = false;
                let file = File::create(c.at(&name)).ok();
                // Relaxed: a flag and a count, each by itself.
                while let (Some(file), false) = (&file, end.load(Ordering::Relaxed)) {
                    let next = kept.load(Ordering::Relaxed) + 1;
                    let done = file.write_all_at(&next.to_le_bytes(), next * 8);
                    match done.and_then(|()| file.sync_all()) {
                        Ok(()) if has_failed => return Some(name),
                        Ok(()) => kept.store(next, Ordering::Relaxed),
                        Err(_) => has_failed = true,
                    }
                }
                None
            })
        });
        std::thread::sleep(Duration::from_millis(300));
        c.set_fault(Fault::Broken);
        std::thread::sleep(Duration::from_secs(1));
        c.set_fault(Fault::None);
        std::thread::sleep(Duration::from_millis(500));
        let mut old = [0; 3];
        reader.read_exact_at(&mut old, 0).unwrap();
        assert_eq!(&old, b"old");
        drop(end_of_all);
        loops.map(|one| one.join().unwrap())
    });
    let liars: Vec<_> = liars.into_iter().flatten().collect();
    assert!(
        liars.is_empty(),
        "syncs that succeeded after one that failed: {liars:?}"
    );
    assert!(
        File::create(c.at("new"))
            .and_then(|new| new.sync_all())
            .is_err()
    );
    drop(reader);
    c.fail(Failure::Cut);
    for kept in &kept {
        let count = kept.load(Ordering::Relaxed);
        if count > 0 {
            let bytes = c.read(&format!("l{kept:p}"));
            for n in 1..=count {
                let at = n as usize * 8;
                assert_eq!(bytes[at..at + 8], n.to_le_bytes(), "record {n} of {count}");
            }
        }
    }
    c.put("works", "again");
    c.sync("works");
}

/// SR20: metadata was no longer saved, and nobody was told.
#[test]
fn sr20_when_nothing_can_be_saved_writers_get_errors_soon() {
    let c = Case::new();
    c.put("f", "x");
    c.set_fault(Fault::Broken);
    let end = Instant::now() + Duration::from_secs(15);
    let mut n = 0;
    while File::create(c.at(&format!("n{n}"))).is_ok() {
        assert!(Instant::now() < end, "it goes on from memory");
        std::thread::sleep(Duration::from_millis(100));
        n += 1;
    }
    assert_eq!(c.read("f"), b"x");
    c.set_fault(Fault::None);
}
