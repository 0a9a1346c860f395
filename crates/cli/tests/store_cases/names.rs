//! Names after a crash.

use crate::case::{Case, FAILURES, Failure};
use crate::harness::Random;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};

/// A step of a case.
type Step = fn(&Case);

/// SR1: a rename over a synced file, then syncs of a neighbour and of the directory.
#[test]
fn sr1_a_file_that_was_renamed_over_another_is_old_or_new_and_never_neither() {
    const STEPS: [Step; 9] = [
        |c| c.mkdir("A"),
        |c| c.mkdir("B"),
        |c| c.put("A/bar", "old"),
        |c| c.sync("A/bar"),
        |c| c.put("B/bar", "new"),
        |c| c.rename("B/bar", "A/bar"),
        |c| c.put("A/foo", ""),
        |c| c.sync("A/foo"),
        |c| c.sync("A"),
    ];
    for failure in [Failure::Cut, Failure::Torn, Failure::Kill] {
        for until in 1..=STEPS.len() {
            let mut c = Case::new();
            STEPS[..until].iter().for_each(|step| step(&c));
            c.fail(failure);
            if until >= 4 {
                let bar = c.read("A/bar");
                assert!(
                    bar == b"old" || bar == b"new",
                    "{failure:?} after {until}: {bar:?}"
                );
                assert!(
                    !(c.exists("B/bar") && bar == b"new"),
                    "{failure:?} after {until}"
                );
            }
            if until == STEPS.len() {
                assert!(c.read("A/bar") == b"new", "{failure:?}");
                assert!(!c.exists("B/bar"), "{failure:?}");
                assert_eq!(c.names("A"), ["bar", "foo"], "{failure:?}");
            }
        }
    }
}

/// SR2: moved files and directories were in both parents.
#[test]
fn sr2_what_was_moved_is_in_exactly_one_place() {
    for failure in [Failure::Cut, Failure::Torn, Failure::Kill] {
        let mut c = Case::new();
        c.mkdir("A");
        c.mkdir("A/C");
        c.rename("A/C", "B");
        c.put("B/bar", "x");
        c.sync("B/bar");
        c.rename("B/bar", "A/bar");
        c.rename("A", "B");
        c.sync("B/bar");
        c.fail(failure);
        assert_eq!(c.names("."), ["B"], "{failure:?}");
        assert_eq!(c.names("B"), ["bar"], "{failure:?}");
        assert_eq!(fs::metadata(c.at("B/bar")).unwrap().nlink(), 1);
    }
}

/// SR2: a directory of 100 files, of which only the new parent or a file in it is synced.
#[test]
fn sr2_a_directory_that_was_moved_has_one_parent_and_all_its_files() {
    for synced in ["new", "new/moved/f7"] {
        let mut c = Case::new();
        for name in ["old", "new", "old/moved"] {
            c.mkdir(name);
        }
        for n in 0..100 {
            c.put(&format!("old/moved/f{n}"), n.to_string());
        }
        c.sync("old/moved");
        c.rename("old/moved", "new/moved");
        c.sync(synced);
        c.cut();
        assert!(c.names("old").is_empty(), "{synced}");
        assert_eq!(c.names("new/moved").len(), 100, "{synced}");
        let parent = fs::metadata(c.at("new/moved/..")).unwrap();
        assert_eq!(parent.ino(), fs::metadata(c.at("new")).unwrap().ino());
    }
}

/// SR4: a sync of a file kept only one of its names.
#[test]
fn sr4_all_names_that_were_made_before_a_sync_of_the_file_are_there() {
    const STEPS: [Step; 6] = [
        |c| c.put("A/foo", "x"),
        |c| c.link("A/foo", "B/foo"),
        |c| c.link("A/foo", "C/foo"),
        |c| c.rename("B/foo", "B/bar"),
        |c| c.unlink("A/foo"),
        |c| c.sync("C/foo"),
    ];
    let rounds = std::env::var("HEARTH_ROUNDS").map_or(8, |n| n.parse().unwrap());
    let mut random = Random(crate::harness::seed());
    for round in 0..rounds {
        let mut c = Case::new();
        for name in ["A", "B", "C"] {
            c.mkdir(name);
        }
        // The last ones make the whole of it; `fail` compares names and nlink at every cut.
        let until = match round % 2 {
            0 => STEPS.len(),
            _ => random.below(STEPS.len() as u64) as usize,
        };
        STEPS[..until].iter().for_each(|step| step(&c));
        c.fail(FAILURES[round % FAILURES.len()]);
        if until == STEPS.len() {
            let names = ["A", "B", "C"].map(|dir| c.names(dir));
            assert_eq!(
                names,
                [vec![], vec!["bar".to_owned()], vec!["foo".to_owned()]]
            );
            assert_eq!(fs::metadata(c.at("C/foo")).unwrap().nlink(), 2);
        }
    }
}

/// SR5: a sync of a directory did not keep its children.
#[test]
fn sr5_after_a_sync_of_a_directory_every_name_below_it_is_there() {
    let mut c = Case::new();
    for name in ["A", "B", "A/C"] {
        c.mkdir(name);
    }
    c.put("B/foo", "x");
    c.sync("B/foo");
    c.link("B/foo", "A/C/foo");
    c.sync("A");
    c.cut();
    assert_eq!(c.names("."), ["A", "B"]);
    assert_eq!(
        (c.names("A"), c.names("A/C")),
        (vec!["C".into()], vec!["foo".into()])
    );
    assert_eq!(c.read("A/C/foo"), b"x");
}

/// SR5: the count of entries was wrong after recovery, and the directory could not be removed.
#[test]
fn sr5_a_directory_can_be_emptied_and_removed_after_recovery() {
    for failure in FAILURES {
        let mut c = Case::new();
        c.mkdir("D");
        for n in 0..50 {
            c.put(&format!("D/f{n}"), "x");
        }
        c.sync("D");
        for n in 0..25 {
            c.unlink(&format!("D/f{n}"));
        }
        for n in 0..10 {
            c.put(&format!("D/f{n}"), "new");
        }
        c.sync("D/f3");
        c.fail(failure);
        assert_eq!(c.names("D").len(), 35, "{failure:?}");
        for name in c.names("D") {
            c.unlink(&format!("D/{name}"));
        }
        let before = fs::metadata(c.root()).unwrap().nlink();
        fs::remove_dir(c.at("D")).unwrap();
        assert_eq!(
            fs::metadata(c.root()).unwrap().nlink(),
            before - 1,
            "{failure:?}"
        );
        c.sync(".");
        c.fail(failure);
        assert!(!c.exists("D"));
    }
}

/// SR6: symlinks were empty, special files and many links made the volume refuse to mount.
#[test]
fn sr6_symlinks_special_files_and_many_links_are_whole() {
    let mut c = Case::new();
    let target = "t".repeat(4_000);
    symlink(&target, c.at("l")).unwrap();
    c.sync(".");
    c.cut();
    assert_eq!(fs::read_link(c.at("l")).unwrap().as_os_str().len(), 4_000);

    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, c.at("p"), FileType::Fifo, mode, 0).unwrap();
    let null = rustix::fs::makedev(1, 3);
    rustix::fs::mknodat(CWD, c.at("c"), FileType::CharacterDevice, mode, null).unwrap();
    c.rename("p", "q");
    c.link("q", "p");
    c.put("neighbour", "x");
    c.sync("neighbour");
    let before = c.walk();
    c.cut();
    assert_eq!(c.walk(), before);
    assert_eq!(fs::metadata(c.at("c")).unwrap().rdev(), null);

    c.mkdir("many");
    c.put("many/0", "x");
    for n in 1..5_000 {
        c.link("many/0", &format!("many/{n}"));
    }
    c.unlink("many/0");
    c.link("many/1", "many/0");
    c.sync("many/0");
    c.cut();
    assert_eq!(c.names("many").len(), 5_000);
    assert_eq!(fs::metadata(c.at("many/77")).unwrap().nlink(), 5_000);
}

/// SR7: the log held the name of an O_TMPFILE and not its creation.
#[test]
fn sr7_a_file_that_got_its_first_name_late_is_whole_or_not_there() {
    let bytes = vec![7; 1 << 20];
    for (until, failure) in (0..4).flat_map(|until| FAILURES.map(|failure| (until, failure))) {
        let mut c = Case::new();
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(c.root(), flags, Mode::from_raw_mode(0o600)).unwrap();
        let mut file = File::from(file);
        file.write_all(&bytes).unwrap();
        if until > 0 {
            file.sync_all().unwrap();
        }
        if until > 1 {
            let own = format!("/proc/self/fd/{}", file.as_raw_fd());
            let follow = AtFlags::SYMLINK_FOLLOW;
            rustix::fs::linkat(CWD, own, CWD, c.at("t"), follow).unwrap();
        }
        if until > 2 {
            c.sync(".");
        }
        drop(file);
        c.fail(failure);
        let is_there = c.exists("t");
        assert!(is_there || until < 3, "{failure:?} after {until}");
        assert!(!is_there || until > 1, "{failure:?} after {until}");
        if is_there {
            assert!(
                c.read("t") == bytes,
                "{failure:?} after {until}: other bytes"
            );
            assert_eq!(fs::metadata(c.at("t")).unwrap().nlink(), 1);
        }
    }
}

/// SR8: a number that was used again was taken for another file.
#[test]
fn sr8_no_number_names_two_files() {
    let mut c = Case::new();
    let rounds = std::env::var("HEARTH_ROUNDS").map_or(4, |n| n.parse().unwrap());
    for round in 0..rounds {
        let dir = format!("d{round}");
        c.mkdir(&dir);
        for n in 0..1_500 {
            let path = c.at(&format!("{dir}/{n}"));
            let mut file = File::create(&path).unwrap();
            let number = file.metadata().unwrap().ino();
            write!(file, "{number}").unwrap();
            if n % 500 == 0 {
                file.sync_all().unwrap();
            }
        }
        c.fail([Failure::Kill, Failure::Cut, Failure::Torn][round % 3]);
        let mut seen = std::collections::HashSet::new();
        for (path, found) in crate::case::walk(c.root()) {
            assert!(
                seen.insert(found.ino()),
                "{}: its number is another's",
                path.display()
            );
            if found.is_file() {
                let said = fs::read_to_string(&path).unwrap();
                // One that nobody synced may be empty, and on ext4 of zeros.
                let own = found.ino().to_string();
                let is_lost = said.is_empty() || said.bytes().all(|byte| byte == 0);
                assert!(said == own || is_lost, "{}: {said}", path.display());
            }
        }
    }
}
