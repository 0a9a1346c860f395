//! The order of syncs, writes of the log that fail, and what the engine must not bring back.

use crate::case::{Case, Failure, factor, rounds};
use crate::harness::{Random, hearth, succeed};
use hearth_testing::forgetting::Fault;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, chown};
use std::time::{Duration, Instant};

/// SR15: a store of objects never synced them, or synced the small ones alone.
#[test]
fn sr15_data_and_its_name_are_durable_before_the_commit_that_names_them() {
    let mut c = Case::on_a_strict_disk();
    // In the log, one segment, several parts of several segments.
    let sizes = [4 << 10, 3 << 20, 40 << 20];
    for (n, size) in sizes.into_iter().enumerate() {
        let name = format!("f{n}");
        let before = c.counts();
        c.put(&name, Random(n as u64).bytes(size));
        c.sync(&name);
        let after = c.counts();
        let directories = after.directory_syncs - before.directory_syncs;
        let files = after.syncs - before.syncs;
        let least = u64::from(size > 1 << 20);
        assert!(
            directories >= least && files > least,
            "{size} bytes: {files} syncs of files, {directories} of directories"
        );
        c.fail(Failure::Cut);
        for (n, size) in sizes.into_iter().enumerate().take(n + 1) {
            let bytes = c.read(&format!("f{n}"));
            assert!(bytes == Random(n as u64).bytes(size), "{size} bytes");
        }
    }
}

/// SR17: a failed write of the journal was forgotten, and later batches were lost behind it.
#[test]
fn sr17_when_one_write_of_the_log_has_failed_no_later_sync_lies() {
    for round in 0..rounds(5) {
        let mut c = Case::new();
        let (mut kept, mut has_failed) = (Vec::new(), false);
        for n in 0..40_u64 {
            if n == 3 + round * 4 % 30 {
                c.set_fault(Fault::Once);
            }
            let name = format!("f{n}");
            let done = File::create(c.at(&name)).and_then(|mut file| {
                file.write_all(&n.to_le_bytes())?;
                file.sync_all()
            });
            match done {
                Ok(()) if has_failed => panic!("round {round}: {name} after a failed sync"),
                Ok(()) => kept.push(n),
                Err(_) => has_failed = true,
            }
        }
        assert!(has_failed, "round {round}: the write that failed was told");
        c.fail(Failure::Cut);
        for n in kept {
            assert_eq!(c.read(&format!("f{n}")), n.to_le_bytes(), "round {round}");
        }
    }
}

/// SR18: what was cleared outside of the journal came back.
#[test]
fn sr18_nothing_that_was_removed_and_synced_comes_back_after_a_kill() {
    let mut c = Case::plain(",hot_track");
    c.mkdir("d");
    for n in 0..factor() * 2_000 {
        c.put(&format!("d/f{n}"), [7; 100]);
    }
    c.put("d/big", Random(1).bytes(8 << 20));
    let quota = |c: &Case, words: &[&str]| {
        let (verb, rest) = words.split_first().unwrap();
        let mut command = hearth();
        let at = c.root();
        succeed(command.args(["quota", verb]).args(rest).arg(at))
    };
    quota(&c, &["set", "user:1234", "--hard", "1M"]);
    c.sync(".");
    c.fail(Failure::Kill);
    assert_eq!(c.usage(1234)["bytes"]["hard"], 1 << 20);
    fs::remove_dir_all(c.at("d")).unwrap();
    quota(&c, &["set", "user:1234", "--hard", "none"]);
    succeed(hearth().arg("sync").arg(c.root()));
    for _ in 0..2 {
        c.fail(Failure::Kill);
        assert!(c.names(".").is_empty(), "{:?}", c.names("."));
        assert!(
            !c.usage(1234)["bytes"]["hard"].is_u64(),
            "{}",
            c.usage(1234)
        );
    }
}

/// SR22: the disk neither answered nor failed, and nobody said anything.
#[test]
fn sr22_while_the_disk_does_not_answer_memory_is_served_and_afterwards_all_syncs_end() {
    let c = Case::new();
    c.put("cached", "text");
    c.sync("cached");
    assert_eq!(c.read("cached"), b"text");
    c.set_delay(Duration::from_secs(3));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|n| {
                let c = &c;
                scope.spawn(move || {
                    c.put(&format!("w{n}"), "x");
                    File::open(c.at(&format!("w{n}")))?.sync_all()
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(1_700));
        let begun = Instant::now();
        for _ in 0..50 {
            assert_eq!(c.read("cached"), b"text");
            assert!(c.exists("cached") && !c.exists("none"));
        }
        let stats = fs::read_to_string(c.at(".hearth/stats")).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(1), "readers wait");
        assert!(stats.contains("hearth_disk_silent_seconds 1\n"), "{stats}");
        c.set_delay(Duration::ZERO);
        for writer in writers {
            writer.join().unwrap().unwrap();
        }
    });
}

/// SR76: records of the rarer kind were missing after a clean end.
#[test]
fn sr76_after_a_clean_end_each_kind_of_record_is_there_however_rare() {
    let mut c = Case::plain(",hot_track");
    let most = factor() * 4_000;
    for n in 0..most {
        let name = format!("f{n}");
        c.put(&name, n.to_string());
        if n % 100 == 0 {
            let path = c.at(&name);
            rustix::fs::setxattr(
                &path,
                "user.n",
                &n.to_le_bytes(),
                rustix::fs::XattrFlags::empty(),
            )
            .unwrap();
            chown(&path, Some(n as u32), None).unwrap();
        }
        if n % 1_000 == 0 {
            let id = format!("user:{}", 5_000 + n);
            succeed(
                hearth()
                    .args(["quota", "set", &id, "--hard", "5M"])
                    .arg(c.root()),
            );
            let file = File::options().write(true).open(c.at(&name)).unwrap();
            file.write_all_at(&Random(n).bytes(100_000), 0).unwrap();
        }
    }
    for failure in [Failure::Unmount, Failure::Unmount, Failure::Kill] {
        c.sync(".");
        c.fail(failure);
        assert_eq!(c.names(".").len() as u64, most);
        for n in (0..most).step_by(100) {
            let path = c.at(&format!("f{n}"));
            let mut value = [0; 8];
            let got = rustix::fs::getxattr(&path, "user.n", &mut value).unwrap();
            assert_eq!((got, value), (8, n.to_le_bytes()), "{failure:?}: f{n}");
        }
        for n in (0..most).step_by(1_000) {
            assert_eq!(
                c.usage(5_000 + n as u32)["bytes"]["hard"],
                5 << 20,
                "{failure:?}"
            );
            let bytes = c.read(&format!("f{n}"));
            assert!(bytes == Random(n).bytes(100_000), "{failure:?}: f{n}");
        }
    }
}
