//! Copies of the files of a volume.

use crate::case::Case;
use crate::harness::{Random, hearth, program, said};
use crate::stored::source;
use hearth_testing::place::Place;
use hearth_testing::rounds::Service;
use hearth_testing::threads::SetOnDrop;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// SR57: copies of a live volume lost data or crashed when they were opened.
#[test]
fn sr57_a_copy_of_a_live_volume_opens_as_a_prefix_or_is_refused_in_one_line() {
    let c = Case::new();
    let ways = [
        "cp -a",
        "cp -a, twice",
        "rsync -a",
        "rsync -a, twice",
        "tar",
    ];
    let place = Place::new("copy").unwrap();
    let mount = place.directory("m").unwrap();
    let (end, synced) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&end);
        scope.spawn(|| {
            let mut n = 0;
            // Relaxed: a flag and a count, each by itself.
            while !end.load(Ordering::Relaxed) {
                let name = format!("f{n}");
                c.put(&name, Random(n).bytes(20_000));
                c.sync(&name);
                synced.store(n + 1, Ordering::Relaxed);
                n += 1;
            }
        });
        for way in ways {
            let copy = place.path().join("copy");
            let at_least = synced.load(Ordering::Relaxed);
            duplicate(way, c.kept(), &copy);
            let mounted = said(hearth().args(["mount", &source(&copy)]).arg(&mount));
            assert!(!mounted.err.contains("panicked"), "{way}: {mounted:?}");
            if mounted.success() {
                prefix(&mount, at_least, way);
                let end = said(hearth().arg("umount").arg(&mount));
                assert!(end.success(), "{way}: {end:?}");
                let checked = said(hearth().arg("fsck").arg(&copy));
                assert!(checked.success(), "{way}: {checked:?}");
            } else {
                assert_eq!(mounted.err.trim().lines().count(), 1, "{way}: {mounted:?}");
            }
            fs::remove_dir_all(&copy).unwrap();
        }
    });
}

/// Files 0 to n, whole, and no other; all that were synced before the copy began.
fn prefix(mount: &Path, at_least: u64, way: &str) {
    let count = fs::read_dir(mount).unwrap().count() as u64;
    assert!(
        count >= at_least,
        "{way}: {count} files, {at_least} were synced before"
    );
    for n in 0..count {
        let bytes = fs::read(mount.join(format!("f{n}")));
        let bytes = bytes.unwrap_or_else(|error| panic!("{way}: f{n} of {count}: {error}"));
        let want = Random(n).bytes(20_000);
        let is_last = n + 1 >= count;
        assert!(
            bytes == want || is_last && want.starts_with(&bytes),
            "{way}: f{n}"
        );
    }
}

fn duplicate(way: &str, from: &Path, to: &Path) {
    let turns = if way.ends_with("twice") { 2 } else { 1 };
    for _ in 0..turns {
        let (from, to) = (from.display(), to.display());
        let script = match way.split(',').next() {
            Some("cp -a") => format!("mkdir -p {to}; cp -a {from}/. {to}"),
            Some("tar") => format!("mkdir -p {to}; tar -C {from} -c . | tar -C {to} -x"),
            _ => format!("rsync -a --delete {from}/ {to}/"),
        };
        // A file that changes while it is read is told by its status, and is what is tried here.
        said(program("bash").args(["-c", &script]));
    }
}

/// SR58: a copy with the same identity beside the original.
#[test]
fn sr58_a_copy_beside_the_original_is_a_volume_of_its_own() {
    let mut c = Case::new();
    c.put("both", "x");
    c.daemon().stop().unwrap();
    let place = Place::new("twins").unwrap();
    let (copy, mount) = (place.path().join("s2"), place.directory("m").unwrap());
    duplicate("cp -a", c.kept(), &copy);
    c.daemon().start().unwrap();
    let mounted = said(hearth().args(["mount", &source(&copy)]).arg(&mount));
    assert!(mounted.success(), "{mounted:?}");
    c.put("first", "1");
    fs::write(mount.join("second"), "2").unwrap();
    let end = said(hearth().arg("umount").arg(&mount));
    assert!(end.success(), "{end:?}");
    c.cut_after_sync();
    assert_eq!(c.names("."), ["both", "first"]);
    let mounted = said(hearth().args(["mount", &source(&copy)]).arg(&mount));
    assert!(mounted.success(), "{mounted:?}");
    assert_eq!(fs::read(mount.join("second")).unwrap(), b"2");
    assert!(!mount.join("first").exists());
    assert!(said(hearth().arg("umount").arg(&mount)).success());
}
