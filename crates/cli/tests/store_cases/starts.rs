//! Beginnings that are cut off, how long an opening takes, versions, and the end before.

use crate::case::{Case, Failure, factor, rounds};
use crate::harness::{Random, hearth, said, until};
use crate::stored::source;
use hearth_testing::place::{Place, mounts_below};
use hearth_testing::rounds::Service;
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// SR43: killed while it grew, a file promised more than it held, and never opened again.
#[test]
fn sr43_a_volume_killed_at_its_beginning_opens_or_says_to_make_it_again() {
    let place = Place::new("begin").unwrap();
    let mount = place.directory("m").unwrap();
    let mut random = Random(crate::harness::seed());
    let quiet = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
        command
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    };
    for round in 0..rounds(6) {
        let kept = place.path().join(format!("s{round}"));
        let volume = source(&kept);
        let at = mount.to_string_lossy();
        let mut child = match round % 2 {
            0 => quiet(&["mkfs", &volume]),
            _ => quiet(&["mount", "-f", "-o", "create,transport=dev", &volume, &at]),
        };
        std::thread::sleep(Duration::from_millis(random.below(300)));
        child.kill().unwrap();
        child.wait().unwrap();
        while !mounts_below(&mount).is_empty() {
            rustix::mount::unmount(&mount, rustix::mount::UnmountFlags::DETACH).unwrap();
        }
        let is_there = kept.join("superblock").exists();
        if !is_there && kept.exists() {
            let fsck = said(hearth().arg("fsck").arg(&kept));
            assert!(
                !fsck.success() && fsck.err.trim().lines().count() == 1,
                "{fsck:?}"
            );
            assert!(fsck.err.contains("mkfs"), "{fsck:?}");
        }
        if !is_there {
            let made = said(hearth().args(["mkfs", &volume]));
            assert!(made.success(), "round {round}: {made:?}");
        }
        let mounted = said(hearth().args(["mount", &volume]).arg(&mount));
        assert!(mounted.success(), "round {round}: {mounted:?}");
        fs::write(mount.join("f"), "x").unwrap();
        let end = said(hearth().arg("umount").arg(&mount));
        assert!(end.success(), "{end:?}");
        let fsck = said(hearth().arg("fsck").arg(&kept));
        assert!(fsck.success(), "round {round}: {fsck:?}");
        fs::remove_dir_all(&kept).unwrap();
    }
}

/// SR48: an opening after a kill read everything.
#[test]
fn sr48_an_opening_after_a_kill_takes_as_long_for_many_files_as_for_none() {
    let mut c = Case::plain(",memory=64M");
    let mut took = Vec::new();
    let most = factor() * 12_000;
    for files in [0, most] {
        std::thread::scope(|scope| {
            for task in 0..4 {
                let c = &c;
                scope.spawn(move || {
                    for n in (task..files).step_by(4) {
                        c.put(&format!("f{n}"), "x");
                    }
                });
            }
        });
        c.sync(".");
        // A log full of small records.
        for n in (0..files).step_by(5) {
            c.put(&format!("f{n}"), "y");
        }
        c.sync(".");
        c.daemon().kill();
        let begun = Instant::now();
        c.daemon().start().unwrap();
        assert_eq!(c.exists("f5"), files > 0);
        took.push((begun.elapsed(), c.memory("VmHWM")));
    }
    let (time, memory) = took[1];
    assert!(time < Duration::from_secs(3) + 10 * took[0].0, "{took:?}");
    assert!(memory < took[0].1 + (100 << 10), "KiB: {took:?}");
    assert_eq!(c.names(".").len() as u64, most);
}

/// SR55: mounting changed the format of a volume.
#[test]
fn sr55_a_mount_changes_no_version_and_unknown_features_are_named() {
    let mut c = Case::plain("");
    c.put("f", "x");
    let fields = |c: &Case| {
        let file = fs::File::open(c.kept().join("superblock")).unwrap();
        [0, 4096].map(|slot| {
            let mut head = [0; 40];
            file.read_exact_at(&mut head, slot).unwrap();
            head
        })
    };
    // Magic, version and the three classes of features.
    let same = |head: &[u8; 40]| (head[..12].to_vec(), head[16..].to_vec());
    let before = fields(&c).map(|head| same(&head));
    assert_eq!(before[0], before[1]);
    for failure in [Failure::Unmount, Failure::Kill] {
        c.fail(failure);
        assert_eq!(fields(&c).map(|head| same(&head)), before);
    }
    c.daemon().stop().unwrap();
    // A bit of each class, in a slot whose digest does not know it, is damage and no feature: the
    // other slot counts. `later_versions_and_unknown_features_are_refused_by_name` sets whole
    // slots.
    for class in [16, 24, 32] {
        let file = fs::File::options()
            .write(true)
            .open(c.kept().join("superblock"));
        file.unwrap().write_all_at(&[0x80], class).unwrap();
        let info = said(hearth().arg("info").arg(c.kept()));
        assert!(
            info.success() && info.out.contains("features    none"),
            "{info:?}"
        );
    }
    c.daemon().start().unwrap();
    assert_eq!(c.read("f"), b"x");
}

/// SR75: `umount(8)` returned before the daemon had ended, and the next mount found it in use.
#[test]
fn sr75_a_mount_waits_for_the_end_of_the_one_before() {
    let c = Case::new();
    c.put("big", Random(3).bytes(24 << 20));
    c.set_delay(Duration::from_millis(400));
    rustix::mount::unmount(c.root(), rustix::mount::UnmountFlags::empty()).unwrap();
    let again = said(
        hearth()
            .args(["mount", "-o", "transport=dev", &source(c.kept())])
            .arg(c.root()),
    );
    assert!(again.success(), "{again:?}");
    assert!(
        again.err.contains("waiting for the end of process"),
        "{again:?}"
    );
    assert!(c.read("big") == Random(3).bytes(24 << 20));
    let end = said(hearth().arg("umount").arg(c.root()));
    assert!(end.success(), "{end:?}");
    until("it is unmounted", || mounts_below(c.root()).is_empty());
}
