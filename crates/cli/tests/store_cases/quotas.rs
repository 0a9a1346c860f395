//! Usage after kills.

use crate::case::{Case, Failure, rounds, walk};
use crate::harness::{Random, hearth, succeed};
use hearth_testing::threads::SetOnDrop;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const USERS: u64 = 5;

/// What each user has by a walk: KiB and inodes.
fn walked(c: &Case) -> BTreeMap<u32, (u64, u64)> {
    let mut used = BTreeMap::new();
    for (_, found) in walk(c.root()) {
        let sum = used.entry(found.uid()).or_insert((0, 0));
        sum.0 += found.blocks() / 2;
        sum.1 += 1;
    }
    used
}

/// SR74: usage lived in memory, and was wrong after a kill, or negative.
#[test]
fn sr74_usage_is_that_of_a_walk_after_each_kill_and_no_limit_is_passed() {
    let mut c = Case::plain(",commit=0.3");
    for user in 0..USERS {
        let id = format!("user:{}", 100 + user);
        let words = ["quota", "set", &id, "--hard", "2M", "--inodes-hard", "60"];
        succeed(hearth().args(words).arg(c.root()));
    }
    c.sync(".");
    let mut random = Random(crate::harness::seed());
    for round in 0..rounds(4) {
        let end = AtomicBool::new(false);
        let pid = c.daemon().id().unwrap();
        std::thread::scope(|scope| {
            let _end = SetOnDrop(&end);
            for task in 0..4 {
                let (c, end) = (&c, &end);
                scope.spawn(move || work(c, task << 32 | round, end));
            }
            std::thread::sleep(Duration::from_millis(100 + random.below(500)));
            succeed(std::process::Command::new("kill").args(["-9", &pid.to_string()]));
        });
        // The checkers of Hearth, and a walk of our own.
        c.fail(Failure::Kill);
        let used = walked(&c);
        for (user, (size, inodes)) in &used {
            if *user >= 100 {
                assert!(*size <= 2048 && *inodes <= 60, "round {round}: {used:?}");
                let told = c.usage(*user);
                assert_eq!(told["bytes"]["used"], size * 1024, "round {round}: {told}");
                assert_eq!(told["inodes"]["used"], *inodes, "round {round}: {told}");
            }
        }
    }
}

/// Makes, fills, gives away, renames and removes, until the daemon is gone.
fn work(c: &Case, seed: u64, end: &AtomicBool) {
    let mut random = Random(seed);
    while !end.load(Relaxed) {
        let user = 100 + random.below(USERS) as u32;
        let path = c.at(&format!("f{}", random.below(200)));
        // What is refused for a limit, or because the daemon is gone, is part of it.
        let _ = match random.below(6) {
            0 | 1 => File::create(&path).and_then(|file| {
                chown(&path, Some(user), None)?;
                file.write_all_at(&random.bytes(30_000), random.below(100_000))?;
                file.sync_all()
            }),
            2 => chown(&path, Some(user), None),
            3 => fs::rename(&path, c.at(&format!("f{}", random.below(200)))),
            4 => File::open(&path).and_then(|file| {
                fs::remove_file(&path)?;
                drop(file);
                Ok(())
            }),
            _ => File::options()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_len(random.below(50_000))),
        };
    }
}
