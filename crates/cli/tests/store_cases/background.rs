//! Work that nobody asked for: the log, the collector, what killed processes have left.

use crate::case::{Case, Failure, factor, rounds};
use crate::harness::{Random, hearth, said, succeed};
use crate::stored::source;
use hearth_testing::place::Place;
use hearth_testing::rounds::Service;
use hearth_testing::threads::SetOnDrop;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

fn sizes(files: &[PathBuf]) -> u64 {
    files
        .iter()
        .map(|path| fs::metadata(path).map_or(0, |m| m.size()))
        .sum()
}

fn names(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

/// SR34: a kind of record that nobody writes kept all journals since.
#[test]
fn sr34_the_log_does_not_grow_whatever_is_idle() {
    let mut c = Case::plain(",hot_track");
    succeed(
        hearth()
            .args(["quota", "set", "user:77", "--hard", "1M"])
            .arg(c.root()),
    );
    c.put("once", "x");
    let log = c.kept().join("log");
    let before = sizes(&names(&log));
    for round in 0..factor() * 40 {
        std::thread::scope(|scope| {
            for task in 0..4 {
                let c = &c;
                scope.spawn(move || {
                    for n in 0..12 {
                        let name = format!("f{task}-{n}");
                        c.put(&name, Random(round).bytes(50_000));
                        c.sync(&name);
                    }
                });
            }
        });
        assert_eq!(sizes(&names(&log)), before, "round {round}");
        let journals = names(&c.kept().join("engine"));
        let journals: Vec<_> = journals
            .into_iter()
            .filter(|p| p.extension().is_some_and(|e| e == "jnl"))
            .collect();
        assert!(
            !journals.is_empty() && sizes(&journals) == 0,
            "{journals:?}"
        );
    }
    c.daemon().kill();
    let begun = Instant::now();
    c.daemon().start().unwrap();
    assert!(c.exists("once"));
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}

/// SR35: what was deleted stayed on the disk, a part of each container.
#[test]
fn sr35_room_of_what_is_deleted_comes_back_without_a_verb() {
    let c = Case::plain("");
    let files = 16;
    let open: Vec<File> = (0..files)
        .map(|n| File::create(c.at(&format!("f{n}"))).unwrap())
        .collect();
    for turn in 0..64 {
        for (n, file) in open.iter().enumerate() {
            let bytes = Random(turn << 8 | n as u64).bytes(64 << 10);
            file.write_all_at(&bytes, turn * (64 << 10)).unwrap();
        }
    }
    c.sync(".");
    drop(open);
    for n in 0..files / 10 * 6 {
        c.unlink(&format!("f{n}"));
    }
    let live = |n: usize| n as u64 * 4 * MIB as u64;
    let wait = |most: u64| {
        let end = Instant::now() + Duration::from_secs(30);
        while sizes(&c.segments()) > most {
            assert!(
                Instant::now() < end,
                "{} bytes, at most {most}",
                sizes(&c.segments())
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    // Most of each segment lives: it is rewritten when nothing else dies for a time.
    wait(live(files - files / 10 * 6) / 4 * 5);
    for n in files / 10 * 6..files - 2 {
        c.unlink(&format!("f{n}"));
    }
    wait(live(2) / 4 * 5 + MIB as u64);
    for n in files - 2..files {
        for turn in [0, 63] {
            let mut bytes = vec![0; 64 << 10];
            let file = File::open(c.at(&format!("f{n}"))).unwrap();
            file.read_exact_at(&mut bytes, turn * (64 << 10)).unwrap();
            assert!(bytes == Random(turn << 8 | n as u64).bytes(64 << 10));
        }
        c.unlink(&format!("f{n}"));
    }
    wait(MIB as u64);
}

/// SR38: what a killed process had begun stayed for ever.
#[test]
fn sr38_what_a_killed_daemon_has_begun_is_gone_after_the_next_mount() {
    let mut c = Case::plain("");
    let mut random = Random(crate::harness::seed());
    for round in 0..rounds(4) {
        let path = c.at("big");
        let writer = std::thread::spawn(move || {
            let Ok(mut file) = File::create(path) else {
                return;
            };
            let bytes = Random(round).bytes(MIB);
            for _ in 0..24 {
                if file
                    .write_all(&bytes)
                    .and_then(|()| file.sync_data())
                    .is_err()
                {
                    return;
                }
            }
        });
        std::thread::sleep(Duration::from_millis(random.below(250)));
        c.daemon().kill();
        writer.join().unwrap();
        c.daemon().start().unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let unnamed = said(hearth().args(["fsck", "--json"]).arg(c.kept()));
            let is_clean =
                unnamed.success() && !unnamed.out.contains("F052") && !unnamed.out.contains("F053");
            let uploads = c
                .segments()
                .iter()
                .any(|path| path.to_string_lossy().contains('#'));
            if is_clean && !uploads {
                break;
            }
            assert!(Instant::now() < end, "round {round}: {unnamed:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    c.unlink("big");
    c.sync(".");
    let end = Instant::now() + Duration::from_secs(20);
    while sizes(&c.segments()) > MIB as u64 {
        assert!(Instant::now() < end, "{} bytes stay", sizes(&c.segments()));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// SR40: relocation at full speed that could gain nothing.
#[test]
fn sr40_on_a_full_volume_work_that_gains_nothing_rests() {
    let mut c = Case::on_a_small_disk();
    let mut file = File::create(c.at("big")).unwrap();
    let block = Random(5).bytes(MIB);
    // The kernel takes what is written until a sync tells it that there is no room.
    while file
        .write_all(&block)
        .and_then(|()| file.sync_data())
        .is_ok()
    {}
    drop(file);
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let before = c.ticks();
        std::thread::sleep(Duration::from_secs(4));
        // At most a hundredth of a core.
        let used = c.ticks() - before;
        if used <= 4 {
            break;
        }
        assert!(Instant::now() < end, "{used} ticks in 4 s");
    }
}

/// SR42: what was still being read was deleted.
#[test]
fn sr42_readers_and_dumps_beside_the_collector_read_what_was_written() {
    let c = Case::plain(",memory=16M");
    let files = 24;
    let bytes = |n: u64, turn: u64| Random(n << 8 | turn).bytes(MIB);
    for n in 0..files {
        c.put(&format!("old{n}"), bytes(n, 0));
        c.put(&format!("new{n}"), bytes(n, 1));
    }
    c.sync(".");
    let place = Place::new("dumps").unwrap();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&end);
        for task in 0..3 {
            let (c, end) = (&c, &end);
            scope.spawn(move || {
                let mut random = Random(task);
                let open: Vec<File> = (0..files)
                    .map(|n| File::open(c.at(&format!("old{n}"))).unwrap())
                    .collect();
                while !end.load(Relaxed) {
                    let (n, page) = (random.below(files), random.below(256) as usize * 4096);
                    let mut read = [0; 4096];
                    open[n as usize]
                        .read_exact_at(&mut read, page as u64)
                        .unwrap();
                    assert!(read == bytes(n, 0)[page..page + 4096], "old{n}, {page}");
                }
            });
        }
        // Each turn leaves half of the segments' pages dead.
        for turn in 2..factor() + 5 {
            for n in 0..files {
                c.put(&format!("new{n}"), bytes(n, turn));
            }
            c.sync(".");
            let dump = place.path().join(format!("d{turn}"));
            succeed(hearth().arg("dump").arg(c.kept()).arg(&dump));
            fs::remove_file(dump).unwrap();
            let fsck = said(hearth().args(["fsck", "--data"]).arg(c.kept()));
            assert!(fsck.success(), "{fsck:?}");
        }
    });
    // A dump that was made beside all this is one moment and loads.
    let (dump, copy) = (place.path().join("last"), place.path().join("copy"));
    succeed(hearth().arg("dump").arg(c.kept()).arg(&dump));
    succeed(hearth().arg("load").arg(&dump).arg(source(&copy)));
    succeed(hearth().args(["fsck", "--data"]).arg(&copy));
    let mut c = c;
    c.fail(Failure::Kill);
    for n in 0..files {
        assert!(c.read(&format!("old{n}")) == bytes(n, 0));
    }
}
