//! Repairs, and one bad block that background work meets.

use crate::case::{Case, rounds, walk};
use crate::harness::{Random, flip, hearth, said, succeed};
use crate::stored::source;
use hearth_testing::place::Place;
use hearth_testing::rounds::Service;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Every file that can be read, with its bytes.
fn readable(kept: &Path, mount: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mounted = said(
        hearth()
            .args(["mount", "-o", "ro", &source(kept)])
            .arg(mount),
    );
    assert!(mounted.success(), "{mounted:?}");
    let files = walk(mount).filter(|(_, m)| m.is_file());
    let read = files.filter_map(|(path, _)| {
        let bytes = fs::read(&path).ok()?;
        Some((path.strip_prefix(mount).ok()?.to_owned(), bytes))
    });
    let mut read: BTreeMap<_, _> = read.collect();
    // A walk leaves out what ext4 has by this name.
    let mine = fs::read(mount.join("lost+found")).unwrap();
    read.insert("lost+found".into(), mine);
    succeed(hearth().arg("umount").arg(mount));
    read
}

/// SR54: a repair died on what it should repair, and each attempt lost more.
#[test]
fn sr54_a_repair_ends_can_be_killed_and_loses_nothing_that_could_be_read() {
    let mut c = Case::plain("");
    c.mkdir("d");
    // A file of this name is in the way.
    c.put("lost+found", "mine");
    for n in 0..40 {
        c.put(&format!("d/f{n}"), Random(n).bytes(150_000));
    }
    c.sync(".");
    c.daemon().stop().unwrap();
    let (kept, place) = (c.kept().to_owned(), Place::new("repair").unwrap());
    let mount = place.directory("m").unwrap();
    let segments = c.segments();
    let largest = segments
        .iter()
        .max_by_key(|path| fs::metadata(path).unwrap().len());
    flip(largest.unwrap(), 5_000);
    flip(
        largest.unwrap(),
        fs::metadata(largest.unwrap()).unwrap().len() - 10,
    );
    // And a table of extents, if there is one, or else of names, is left alone: SR44 damages those.
    let before = readable(&kept, &mount);
    assert!(before.len() > 30 && before.len() < 42, "{}", before.len());
    let look = said(hearth().args(["fsck", "--data"]).arg(&kept));
    assert_eq!(look.status.code(), Some(4), "{look:?}");
    assert!(
        look.out.contains("F054") && look.out.contains("F055"),
        "{look:?}"
    );
    // The verdict is the same for a reader that has gone.
    let mut unread = hearth();
    unread.args(["fsck", "--data"]).arg(&kept);
    let mut unread = unread.stdout(Stdio::piped()).spawn().unwrap();
    drop(unread.stdout.take());
    assert_eq!(unread.wait().unwrap().code(), Some(4));
    let mut random = Random(crate::harness::seed());
    for _ in 0..rounds(4) {
        let mut repair = Command::new(env!("CARGO_BIN_EXE_hearth"));
        let repair = repair.args(["fsck", "--repair", "--data"]).arg(&kept);
        let mut repair = repair.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.below(150)));
        repair.kill().unwrap();
        repair.wait().unwrap();
    }
    for _ in 0..2 {
        let repair = said(hearth().args(["fsck", "--repair", "--data"]).arg(&kept));
        assert_eq!(repair.status.code(), Some(4), "{repair:?}");
        assert!(!repair.err.contains("panicked"), "{repair:?}");
        assert!(readable(&kept, &mount) == before);
    }
    assert_eq!(before[Path::new("lost+found")], b"mine");
}

/// SR56: one bad block that compaction met made everything read-only, or ended the process.
#[test]
fn sr56_a_bad_block_that_the_collector_meets_costs_its_own_file_alone() {
    let mut c = Case::plain("");
    for n in 0..16 {
        c.put(&format!("f{n}"), Random(n).bytes(1 << 20));
    }
    c.sync(".");
    c.daemon().stop().unwrap();
    let segments = c.segments();
    let largest = segments
        .iter()
        .max_by_key(|path| fs::metadata(path).unwrap().len());
    flip(largest.unwrap(), 64 + 64 + 1_000);
    c.daemon().start().unwrap();
    let bad: Vec<u64> = (0..16)
        .filter(|n| fs::read(c.at(&format!("f{n}"))).is_err())
        .collect();
    assert_eq!(bad.len(), 1, "{bad:?}");
    // Most of the segment dies, so the collector wants it.
    let kept = |n: &u64| bad.contains(n) || *n == (bad[0] + 5) % 16;
    for n in (0..16).filter(|n| !kept(n)) {
        c.unlink(&format!("f{n}"));
    }
    c.sync(".");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        c.put("new", "x");
        c.sync("new");
        std::thread::sleep(Duration::from_millis(100));
    }
    let before = c.ticks();
    std::thread::sleep(Duration::from_secs(3));
    let used = c.ticks() - before;
    assert!(used < 30, "{used} ticks in 3 s: it does not rest");
    let other = (bad[0] + 5) % 16;
    for _ in 0..2 {
        let error = fs::read(c.at(&format!("f{}", bad[0]))).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        assert!(c.read(&format!("f{other}")) == Random(other).bytes(1 << 20));
        assert_eq!(c.read("new"), b"x");
        let size: u64 = c
            .segments()
            .iter()
            .map(|p| fs::metadata(p).map_or(0, |m| m.size()))
            .sum();
        assert!(size < 16 << 20, "{size} bytes: the rest was not collected");
        c.daemon().kill();
        c.daemon().start().unwrap();
    }
}
