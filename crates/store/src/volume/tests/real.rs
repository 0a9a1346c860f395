//! Facts about volumes on real files with the real engine.

use super::harness::*;
use crate::disk::simulated::Dice;
use crate::volume::{Kv, MkfsOptions, OpenMode};
use crate::{Error, KvOp, Read, Table};
use hearth_testing::threads::SetOnDrop;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn small() -> MkfsOptions {
    MkfsOptions {
        log_len: 64 << 10,
        ..MkfsOptions::default()
    }
}

fn volume() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("v");
    Kv::mkfs(&dir, &small()).unwrap();
    (root, dir)
}

fn write(dir: &Path) -> Kv {
    Kv::open(dir, writer()).unwrap()
}

/// All files with their bytes.
fn bytes(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(bytes(&path)),
            false => {
                let mut bytes = fs::read(&path).unwrap();
                // Journals are preallocated.
                bytes.truncate(1 << 20);
                found.insert(path, bytes);
            }
        }
    }
    found
}

#[test]
fn what_was_committed_is_there_after_a_drop_and_after_a_close() {
    let (_root, dir) = volume();
    let mut history = History::new();
    let mut dice = Dice(7);
    for round in 0..12 {
        let kv = write(&dir);
        history.check(&kv).unwrap();
        assert_eq!(kv.opened(), round + 1);
        for _ in 0..30 {
            history.commit(&kv, &random_ops(&mut dice, 9000)).unwrap();
        }
        history.check(&kv).unwrap();
        if round % 2 == 0 {
            kv.close().unwrap();
        }
    }
}

#[test]
fn a_new_value_wins_over_an_old_one_after_each_opening_and_compaction() {
    let (_root, dir) = volume();
    for round in 1..=20_u64 {
        let kv = write(&dir);
        let value = format!("{round}");
        if round > 1 {
            assert_eq!(get(&kv, "k"), Some(format!("{}", round - 1)));
            assert_eq!(get(&kv, "gone"), None);
        }
        let gone = match round % 2 {
            0 => remove("gone"),
            _ => remove("also gone"),
        };
        kv.commit(
            round * 2,
            &[put("k", &value), put("gone", "x"), put("m", &value)],
        )
        .unwrap();
        kv.checkpoint().unwrap();
        kv.commit(round * 2 + 1, &[remove("gone"), gone]).unwrap();
        kv.close().unwrap();
    }
    let kv = write(&dir);
    assert_eq!(get(&kv, "k").as_deref(), Some("20"));
    assert_eq!(state(&kv).unwrap()[0].len(), 2);
}

#[test]
fn a_read_only_opening_changes_no_byte_and_sees_the_log() {
    let (_root, dir) = volume();
    let kv = write(&dir);
    kv.commit(1, &[put("a", "1"), put("b", "1")]).unwrap();
    kv.checkpoint().unwrap();
    kv.commit(2, &[put("a", "2"), remove("b"), put("c", "2")])
        .unwrap();
    drop(kv);
    let before = bytes(&dir);
    let kv = Kv::open(&dir, OpenMode::ReadOnly).unwrap();
    let other = Kv::open(&dir, OpenMode::ReadOnly).unwrap();
    for kv in [&kv, &other] {
        assert_eq!(kv.last_epoch(), 2);
        assert_eq!(get(kv, "a").as_deref(), Some("2"));
        assert_eq!(get(kv, "b"), None);
        let held: Vec<_> = state(kv).unwrap()[0].keys().cloned().collect();
        assert_eq!(held, [b"a", b"c"]);
    }
    assert!(matches!(
        kv.commit(3, &[put("a", "3")]),
        Err(Error::ReadOnly { .. })
    ));
    let refused = Kv::open(&dir, writer()).err().unwrap();
    assert!(matches!(&refused, Error::InUse { who, .. } if who == "a process, which reads it"));
    kv.close().unwrap();
    drop((kv, other));
    assert!(bytes(&dir) == before);
}

/// Once, the last writer was named, which had ended long ago.
#[test]
fn a_writer_that_has_ended_is_not_said_to_hold_the_lock() {
    let (_root, dir) = volume();
    let lock = dir.join("lock");
    let held = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&lock)
        .unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let (own, other) = (std::process::id(), "elsewhere.example");
    // A number that no process has, one that has not opened the file, and one of another machine.
    for (name, is_named) in [
        (format!("process 4194999 on {host}, mounted on /m"), false),
        (format!("process 1 on {host}, mounted on /m"), false),
        (String::new(), false),
        (format!("process {own} on {host}, mounted on /m"), true),
        (format!("process 4194999 on {other}, mounted on /m"), true),
    ] {
        std::fs::write(&lock, &name).unwrap();
        let refused = Kv::open(&dir, writer()).err().unwrap();
        let wanted = if is_named { &*name } else { crate::UNNAMED };
        assert!(
            matches!(&refused, Error::InUse { who, .. } if who == wanted),
            "{refused}"
        );
    }
}

#[test]
fn a_second_opener_is_told_the_first() {
    let (_root, dir) = volume();
    let kv = write(&dir);
    let text = Kv::open(&dir, writer()).err().unwrap().to_string();
    assert!(text.contains("mounted at /m"), "{text}");
    let process = format!("process {}", std::process::id());
    assert!(text.contains(&process), "{text}");
    let user = Kv::user_of(&dir).unwrap().unwrap();
    assert!(user.contains(&process), "{user}");
    // A reader needs no lock.
    drop(Kv::open(&dir, OpenMode::ReadOnly).unwrap());
    kv.close().unwrap();
    write(&dir);
}

/// What a volume writes over in place has the copy as well, where that is made of hard links (`cp
/// -al`, `rsync --link-dest`). Once, an opening of one changed the other.
#[test]
fn a_copy_made_of_hard_links_is_read_and_not_written() {
    fn link_all(from: &Path, to: &Path) {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            match entry.path().is_dir() {
                true => link_all(&entry.path(), &to),
                false => fs::hard_link(entry.path(), to).unwrap(),
            }
        }
    }
    let (root, dir) = volume();
    let copy = root.path().join("copy");
    let kv = write(&dir);
    kv.commit(1, &[put("a", "1")]).unwrap();
    kv.close().unwrap();
    drop(kv);
    link_all(&dir, &copy);
    let before = bytes(&dir);
    for place in [&dir, &copy] {
        let refused = Kv::open(place, writer()).err().expect("it has two names");
        let Error::Linked { path } = &refused else {
            panic!("{refused}")
        };
        assert!(path.starts_with(place), "{refused}");
    }
    assert!(bytes(&dir) == before);
    let kv = Kv::open(&copy, OpenMode::ReadOnly).unwrap();
    assert_eq!(get(&kv, "a").as_deref(), Some("1"));
    drop(kv);
    // The room that nobody reads, and the lock while nobody has it, stand in nobody's way.
    fs::remove_dir_all(&copy).unwrap();
    fs::create_dir(&copy).unwrap();
    for name in ["ballast", "lock"] {
        fs::hard_link(dir.join(name), copy.join(name)).unwrap();
    }
    let kv = write(&dir);
    let other = fs::metadata(copy.join("ballast")).unwrap();
    assert_ne!(
        fs::metadata(dir.join("ballast")).unwrap().ino(),
        other.ino()
    );
    let text = Kv::open(&dir, writer()).err().unwrap().to_string();
    assert!(text.contains("lock has 2 names"), "{text}");
    drop(kv);
}

/// Once, a program that had dropped a volume and opened it again was told that it is in use now and
/// then: the last thread that had it was one of the volume's own.
#[test]
fn a_volume_that_another_thread_is_about_to_drop_is_waited_for() {
    let (_root, dir) = volume();
    let kv = write(&dir);
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(kv);
    });
    write(&dir);
    ending.join().unwrap();
}

/// Once, a checkpoint went on for as long as somebody committed.
#[test]
fn a_checkpoint_ends_beside_commits_without_a_pause() {
    const MOST: Duration = Duration::from_secs(60);
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("v");
    // With a small log the commits would wait for the checkpoint.
    Kv::mkfs(&dir, &MkfsOptions::default()).unwrap();
    let kv = write(&dir);
    kv.commit(1, &[put("a", "1")]).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&is_over);
        let commits = scope.spawn(|| {
            let begun = Instant::now();
            for epoch in 2.. {
                if is_over.load(Relaxed) {
                    return;
                }
                assert!(begun.elapsed() < MOST, "the checkpoint does not end");
                kv.commit(epoch, &[put("a", "2")]).unwrap();
            }
        });
        // Each begins while commits come.
        for _ in 0..3 {
            let before = kv.last_epoch();
            while kv.last_epoch() == before && !commits.is_finished() {
                std::thread::yield_now();
            }
            kv.checkpoint().unwrap();
        }
    });
}

#[test]
fn foreign_directories_and_files_are_refused_and_left_as_they_are() {
    let root = tempfile::tempdir().unwrap();
    let photos = root.path().join("photos");
    fs::create_dir(&photos).unwrap();
    fs::write(photos.join("a.jpg"), b"jpeg").unwrap();
    let foreign = root.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("superblock"), [7; 9000]).unwrap();
    let empty = root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let file = root.path().join("file");
    fs::write(&file, b"text").unwrap();
    let before = bytes(root.path());
    for dir in [&photos, &foreign, &empty, &file, &root.path().join("none")] {
        for mode in [writer(), OpenMode::ReadOnly] {
            let error = Kv::open(dir, mode).err().unwrap();
            assert!(matches!(error, Error::NotAVolume { .. }), "{error}");
        }
        assert!(Kv::info_of(dir).is_err());
    }
    for dir in [&photos, &foreign, &file] {
        let error = Kv::mkfs(dir, &small()).unwrap_err();
        assert!(
            matches!(error, Error::NotEmpty { .. } | Error::NotAVolume { .. }),
            "{error}"
        );
    }
    assert!(bytes(root.path()) == before);
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    Kv::mkfs(&empty, &small()).unwrap();
    let error = Kv::mkfs(&empty, &small()).unwrap_err();
    assert!(matches!(error, Error::NotEmpty { .. }));
}

#[test]
fn many_commits_go_around_the_log_and_all_are_there() {
    let (_root, dir) = volume();
    let kv = write(&dir);
    let value = "v".repeat(4000);
    for epoch in 1..=600_u64 {
        let op = KvOp {
            table: TABLES[(epoch % 2) as usize],
            key: epoch.to_be_bytes()[4..].into(),
            value: Some(value.as_bytes().into()),
        };
        kv.commit(epoch, &[op]).unwrap();
    }
    let count = |kv: &Kv| state(kv).unwrap().map(|map| map.len());
    assert_eq!(count(&kv), [300, 300]);
    drop(kv);
    assert_eq!(count(&write(&dir)), [300, 300]);
}

#[test]
fn damage_in_the_journals_of_the_engine_costs_nothing() {
    let (_root, dir) = volume();
    let mut history = History::new();
    let mut dice = Dice(3);
    for _ in 0..6 {
        let kv = write(&dir);
        history.check(&kv).unwrap();
        for _ in 0..10 {
            history.commit(&kv, &random_ops(&mut dice, 9000)).unwrap();
        }
        drop(kv);
        for (path, mut bytes) in bytes(&dir.join("engine")) {
            if path.extension().is_some_and(|kind| kind == "jnl") {
                bytes.resize(bytes.len().max(100), 0);
                bytes.iter_mut().step_by(7).for_each(|byte| *byte ^= 0x55);
                fs::write(path, bytes).unwrap();
            }
        }
    }
    history.check(&write(&dir)).unwrap();
}

/// A volume with tables of several checkpoints, whose witness is up to date.
fn used() -> (tempfile::TempDir, PathBuf, History) {
    let (root, dir) = volume();
    let mut history = History::new();
    let mut dice = Dice(11);
    let kv = write(&dir);
    for _ in 0..40 {
        history.commit(&kv, &random_ops(&mut dice, 9000)).unwrap();
    }
    kv.write_witness().unwrap();
    drop(kv);
    (root, dir, history)
}

/// Opens and reads a damaged copy: it is refused, or a read of it is, or it has the last state.
fn check_damaged(copy: &Path, history: &History, what: &str) {
    match Kv::open(copy, writer()) {
        Err(error) => assert!(!matches!(error, Error::InUse { .. }), "{what}: {error}"),
        // A damaged table may be found by the first read of it.
        Ok(kv) => match state(&kv) {
            Err(error) => assert!(is_damage(&error), "{what}: {error}"),
            Ok(_) => {
                let checked = history.clone().check(&kv);
                checked.unwrap_or_else(|found| panic!("{what}: {found}"));
            }
        },
    }
}

#[test]
fn one_flipped_bit_anywhere_is_refused_or_changes_nothing() {
    let (root, dir, history) = used();
    let mut dice = Dice(21);
    let copy = root.path().join("copy");
    let rounds = std::env::var("HEARTH_FLIPS").map_or(3, |text| text.parse().unwrap());
    for (path, bytes) in &bytes(&dir) {
        for _ in 0..rounds {
            let _ = fs::remove_dir_all(&copy);
            copy_tree(&dir, &copy);
            let at = copy.join(path.strip_prefix(&dir).unwrap());
            let mut bytes = bytes.clone();
            let Some(last) = bytes.len().checked_sub(1) else {
                continue;
            };
            let place = dice.below(last as u64 + 1) as usize;
            bytes[place] ^= 1 << dice.below(8);
            fs::write(&at, &bytes).unwrap();
            check_damaged(&copy, &history, &format!("{}, {place}", at.display()));
        }
    }
}

#[test]
fn a_file_that_is_cut_off_lost_or_zeroed_is_refused_or_changes_nothing() {
    let (root, dir, history) = used();
    let copy = root.path().join("copy");
    for (path, bytes) in &bytes(&dir) {
        let end = bytes.len().saturating_sub(4096);
        let middle = bytes.len() / 8192 * 4096;
        let zeroed = |from: usize, to: usize| {
            let mut bytes = bytes.clone();
            let to = to.min(bytes.len());
            bytes[from..to].fill(0);
            Some(bytes)
        };
        let changed = [
            None,
            Some(Vec::new()),
            Some(bytes[..bytes.len() / 2].to_vec()),
            Some([&bytes[..], &[0; 4096]].concat()),
            Some([&bytes[..], &[0xa5; 4096]].concat()),
            zeroed(end, bytes.len()),
            zeroed(middle, middle + 4096),
            zeroed(0, bytes.len()),
        ];
        for (number, changed) in changed.into_iter().enumerate() {
            let _ = fs::remove_dir_all(&copy);
            copy_tree(&dir, &copy);
            let at = copy.join(path.strip_prefix(&dir).unwrap());
            match changed {
                Some(bytes) => fs::write(&at, bytes).unwrap(),
                None => fs::remove_file(&at).unwrap(),
            }
            check_damaged(
                &copy,
                &history,
                &format!("{}, change {number}", at.display()),
            );
        }
    }
}

pub(super) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_tree(&entry.path(), &to),
            // Journals are 64 MiB of zeros; damage in them has a fact of its own.
            false if to.extension().is_some_and(|kind| kind == "jnl") => fs::write(to, "").unwrap(),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn scans_end_where_they_are_told_and_hide_what_the_volume_keeps_for_itself() {
    let (_root, dir) = volume();
    let kv = write(&dir);
    kv.commit(1, &[put("a", "1"), put("b", "1"), put("d", "1")])
        .unwrap();
    kv.checkpoint().unwrap();
    kv.commit(2, &[put("c", "2"), remove("b"), put("e", "2")])
        .unwrap();
    let keys = |from: &str, to: Option<&str>, most: usize| {
        let mut found = Vec::new();
        let to = to.map(str::as_bytes);
        kv.scan(Table::Meta, from.as_bytes(), to, &mut |key, _| {
            found.push(String::from_utf8(key.to_vec()).unwrap());
            found.len() < most
        })
        .unwrap();
        found.concat()
    };
    assert_eq!(keys("", None, 99), "acde");
    assert_eq!(keys("b", Some("e"), 99), "cd");
    assert_eq!(keys("", None, 2), "ac");
    assert_eq!(keys("d", Some("d"), 99), "");
    assert_eq!(keys("f", None, 99), "");
}
