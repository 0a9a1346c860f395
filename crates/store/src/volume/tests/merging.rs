//! Merges of the engine's tables that fail: idle work, on which nothing depends.

use super::failing::volume;
use super::harness::*;
use super::real::copy_tree;
use crate::disk::simulated::{Dice, Fault};
use crate::volume::{Kv, MkfsOptions, OpenOptions};
use crate::{Error, KvOp, Read, Table};
use hearth_backend::Errno;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use hearth_sync::primitive::thread;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

fn failed(errno: Errno) -> Error {
    Error::Io {
        op: "merge tables of the engine",
        path: "engine".into(),
        errno,
    }
}

fn device() -> Error {
    failed(Errno::EIO)
}

/// Once, a bad block that idle work met in a table made the whole volume read-only.
#[test]
fn a_merge_that_fails_costs_the_merge_alone() {
    let damage = || Error::corrupt("engine", 0, "a part of a table does not fit its checksum");
    let full = || Error::NoSpace { what: "merge" };
    let descriptors = || failed(Errno::EMFILE);
    for (number, error) in [damage(), full(), descriptors()].into_iter().enumerate() {
        let (disk, engines, kv) = volume();
        *engines.merge.lock() = Some(error.clone());
        assert_eq!(kv.compact(u64::MAX).err(), Some(error.clone()));
        assert_eq!(kv.latched(), None, "{error}");
        assert_eq!(state(&kv).unwrap()[0].len(), 2);
        kv.commit(3, &[put("c", "3")]).unwrap();
        kv.checkpoint().unwrap();
        *engines.merge.lock() = None;
        kv.compact(u64::MAX).unwrap();
        kv.close().unwrap();
        drop(kv);
        let kv = open(&disk.crashed(number as u64)).unwrap();
        assert_eq!(state(&kv).unwrap()[0].len(), 3);
        assert_eq!(get(&kv, "a").as_deref(), Some("2"));
    }
}

/// Once, the engine was given up for one that did not open on the broken disk: nothing that was in
/// its tables could be read any more.
#[test]
fn reads_go_on_where_the_disk_breaks_in_a_merge() {
    let (_, engines, kv) = volume();
    *engines.merge.lock() = Some(device());
    *engines.open.lock() = Some(device());
    assert!(kv.compact(u64::MAX).is_err());
    assert_eq!(state(&kv).unwrap()[0].len(), 2);
    assert_eq!(get(&kv, "b").as_deref(), Some("1"));
    // Once, a write or a sync that failed in a merge was forgotten: the disk was believed.
    assert!(kv.latched().is_some());
    let refused = kv.commit(3, &[put("c", "3")]).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
}

/// Once, tables were written to an engine that says that it is broken.
#[test]
fn a_scan_that_keeps_a_broken_engine_from_its_mending_costs_the_checkpoint_alone() {
    let (disk, engines, kv) = volume();
    *engines.merge.lock() = Some(Error::corrupt("engine", 0, "a bad block"));
    assert!(kv.compact(u64::MAX).is_err());
    let mut kept = None;
    kv.scan(Table::Meta, b"", None, &mut |_, _| {
        kept = kv.checkpoint().err();
        kv.commit(3, &[put("c", "3")]).unwrap();
        false
    })
    .unwrap();
    assert!(matches!(kept, Some(Error::Busy { .. })), "{kept:?}");
    assert_eq!(kv.latched(), None);
    kv.checkpoint().unwrap();
    kv.close().unwrap();
    drop(kv);
    let kv = open(&disk.crashed(1)).unwrap();
    assert_eq!(state(&kv).unwrap()[0].len(), 3);
}

/// Once, the volume went on for ever as one whose disk is full, and told callers so.
#[test]
fn an_engine_that_does_not_open_again_for_damage_is_no_lack_of_room() {
    let (disk, engines, kv) = volume();
    *engines.open.lock() = Some(Error::Engine {
        files: vec!["engine/keyspaces/1/tables/7".to_owned()],
        what: "a part of a table does not fit its checksum".to_owned(),
    });
    // A checkpoint that finds no room breaks the engine.
    let now = disk.counts().steps;
    disk.fail_at(now, Fault::NoSpace);
    let failed = kv.checkpoint().unwrap_err();
    assert_eq!(failed.errno(), Errno::EIO, "{failed}");
    let read = kv.get(Table::Meta, b"b").unwrap_err();
    assert_eq!(read.errno(), Errno::EIO, "{read}");
    let why = kv.latched().expect("no more changes are taken");
    assert!(why.contains("engine/keyspaces/1/tables/7"), "{why}");
    let refused = kv.commit(3, &[put("c", "3")]).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
}

const KEYS: u64 = 2_400;

/// A volume on real files with KEYS values of 4 KiB in its tables, of which a third was removed.
fn real_volume(root: &Path) -> Kv {
    let dir = root.join("v");
    Kv::mkfs(&dir, &MkfsOptions::default()).unwrap();
    let options = OpenOptions {
        background: false,
        ..OpenOptions::new(writer())
    };
    let kv = Kv::open_with(&dir, options).unwrap();
    let mut dice = Dice(1);
    for first in (0..KEYS).step_by(200) {
        let ops: Vec<_> = (first..first + 200)
            .map(|n| {
                let value: Vec<u8> = (0..4096).map(|_| dice.below(256) as u8).collect();
                KvOp {
                    table: Table::Meta,
                    key: n.to_be_bytes().into(),
                    value: Some(value.into()),
                }
            })
            .collect();
        kv.commit(kv.last_epoch() + 1, &ops).unwrap();
    }
    kv.checkpoint().unwrap();
    let gone = (0..KEYS).step_by(3).map(|n| KvOp {
        table: Table::Meta,
        key: n.to_be_bytes().into(),
        value: None,
    });
    let gone: Vec<_> = gone.chain([removed_again()]).collect();
    kv.commit(kv.last_epoch() + 1, &gone).unwrap();
    kv.checkpoint().unwrap();
    kv
}

/// A key that never was: a quarter of all entries says that a key is gone.
fn removed_again() -> KvOp {
    KvOp {
        table: Table::Meta,
        key: u64::MAX.to_be_bytes().into(),
        value: None,
    }
}

fn tables(root: &Path) -> PathBuf {
    root.join("v/engine/keyspaces/1/tables")
}

fn bytes_of(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).unwrap().flatten();
    files
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum()
}

#[test]
fn a_bad_block_that_a_merge_meets_costs_its_keys_alone() {
    let root = tempfile::tempdir().unwrap();
    let kv = real_volume(root.path());
    let largest = fs::read_dir(tables(root.path())).unwrap().flatten();
    let largest = largest.max_by_key(|file| file.metadata().unwrap().len());
    let path = largest.unwrap().path();
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let (at, mut byte) = (5 << 20, [0]);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let failed = kv.compact(u64::MAX).unwrap_err();
    assert!(matches!(failed, Error::Corrupt { .. }), "{failed}");
    assert_eq!(kv.latched(), None);
    for _ in 0..2 {
        kv.commit(kv.last_epoch() + 1, &[put("new", "1")]).unwrap();
        kv.checkpoint().unwrap();
    }
    let first = kv.get(Table::Meta, &1_u64.to_be_bytes()).unwrap();
    assert_eq!(first.map(|value| value.len()), Some(4096));
    assert_eq!(get(&kv, "new").as_deref(), Some("1"));
    kv.close().unwrap();
}

#[test]
fn a_table_that_a_merge_cannot_write_makes_the_volume_read_only() {
    let root = tempfile::tempdir().unwrap();
    let kv = real_volume(root.path());
    let folder = tables(root.path());
    let names = fs::read_dir(&folder).unwrap().flatten();
    let names = names.map(|file| file.file_name().into_string().unwrap());
    let last = names
        .map(|name| name.parse::<u64>().unwrap())
        .max()
        .unwrap();
    for number in last + 1..last + 20 {
        fs::create_dir(folder.join(number.to_string())).unwrap();
    }
    let failed = kv.compact(u64::MAX).unwrap_err();
    assert!(matches!(failed, Error::Io { .. }), "{failed}");
    assert!(kv.latched().is_some());
    assert!(kv.get(Table::Meta, &1_u64.to_be_bytes()).unwrap().is_some());
}

/// Once, a merge looked for as much room as the tables have, and took a third more: what it merges
/// first goes when it has merged once more.
#[test]
fn a_merge_takes_no_more_room_than_it_has_looked_for() {
    const SPARE: u64 = 16 << 20;
    let root = tempfile::tempdir().unwrap();
    let kv = real_volume(root.path());
    let folder = tables(root.path());
    let before = bytes_of(&folder);
    for share in 4..=10 {
        let room = before * share / 4;
        let is_over = AtomicBool::new(false);
        let (merged, most) = thread::scope(|scope| {
            let most = scope.spawn(|| {
                let mut most = 0;
                while !is_over.load(Relaxed) {
                    most = most.max(bytes_of(&folder));
                    thread::sleep(Duration::from_micros(200));
                }
                most
            });
            let merged = kv.compact(room + SPARE + 1).unwrap();
            is_over.store(true, Relaxed);
            (merged, most.join().unwrap())
        });
        if merged.is_some() {
            let took = most - before;
            assert!(
                took <= room,
                "{took} bytes beside {before}, looked for {room}"
            );
            return;
        }
    }
    panic!("it never merges");
}

/// Says to a child of this program which volume it merges.
const MERGED: &str = "HEARTH_MERGED_VOLUME";

/// What the child does. Without a volume this is no test.
#[test]
fn a_child_merges_the_tables_of_its_volume() {
    let Some(dir) = std::env::var_os(MERGED) else {
        return;
    };
    let kv = Kv::open(Path::new(&dir), writer()).unwrap();
    println!("begun");
    kv.compact(u64::MAX).unwrap();
    println!("ended");
}

#[test]
fn a_kill_in_the_middle_of_a_merge_costs_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (dir, copy) = (root.path().join("v"), root.path().join("copy"));
    let kv = real_volume(root.path());
    let all = state(&kv).unwrap();
    kv.close().unwrap();
    drop(kv);
    let (mut dice, mut cut_off) = (Dice(3), 0);
    for round in 0..16 {
        let _ = fs::remove_dir_all(&copy);
        copy_tree(&dir, &copy);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("volume::tests::merging::a_child_merges_the_tables_of_its_volume")
            .env(MERGED, &copy)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut lines = lines.lines().map(|line| line.unwrap());
        assert!(lines.any(|line| line.ends_with("begun")), "round {round}");
        thread::sleep(Duration::from_micros(dice.below(200_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        cut_off += u32::from(!lines.any(|line| line.ends_with("ended")));
        let kv = Kv::open(&copy, writer()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(state(&kv).unwrap() == all, "round {round}");
        kv.compact(u64::MAX).unwrap();
        kv.commit(kv.last_epoch() + 1, &[put("new", "1")]).unwrap();
        kv.close().unwrap();
        drop(kv);
        let kv = Kv::open(&copy, writer()).unwrap();
        assert_eq!(state(&kv).unwrap()[0].len(), all[0].len() + 1);
    }
    assert!(cut_off > 0, "every merge had ended");
}
