//! One flipped bit, a cut file, parts of different moments: refused by name, or without effect.

use super::harness::*;
use crate::Error;
use crate::disk::simulated::{Dice, SimulatedDisk};
use crate::kv::{KvOp, Read, Table};
use crate::volume::{OpenMode, frame};

/// A volume after random commits, checkpoints and openings, whose witness is up to date.
fn volume(seed: u64) -> (SimulatedDisk, History) {
    let mut dice = Dice(seed);
    let disk = made(seed, 4 + dice.below(3));
    let mut history = History::new();
    for _ in 0..=dice.below(3) {
        let kv = open(&disk).unwrap();
        for _ in 0..dice.below(25) {
            history.commit(&kv, &random_ops(&mut dice, 9000)).unwrap();
            if dice.below(12) == 0 {
                kv.checkpoint().unwrap();
            }
        }
        kv.write_witness().unwrap();
        if dice.coin() {
            kv.close().unwrap();
        }
    }
    (disk, history)
}

fn damaged(disk: &SimulatedDisk, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> SimulatedDisk {
    let copy = disk.crashed(0);
    copy.edit(name, change);
    copy
}

/// The volume is refused, naming something, or has exactly the last state.
fn check(disk: &SimulatedDisk, history: &History, what: &str) -> bool {
    let before = disk.contents();
    match open(disk) {
        Ok(kv) => {
            let checked = history.clone().check(&kv);
            checked.unwrap_or_else(|error| panic!("{what}: {error}"));
            false
        }
        Err(error) => {
            let is_named = is_damage(&error)
                || matches!(error, Error::NotAVolume { .. } | Error::Newer { .. });
            assert!(is_named, "{what}: {error}");
            assert!(disk.contents() == before, "{what}: refused and changed");
            true
        }
    }
}

#[test]
fn a_flipped_bit_in_any_block_is_refused_or_changes_nothing() {
    let mut refused = 0;
    for seed in 0..40 {
        let (disk, history) = volume(seed);
        let mut dice = Dice(seed ^ 0x5eed);
        for (name, bytes) in disk.contents() {
            let blocks = bytes.len().div_ceil(512) as u64;
            for block in 0..blocks {
                if name == "ballast" || (blocks > 64 && dice.below(4) > 0) {
                    continue;
                }
                // Half of the flips hit the fields at the beginning of the block.
                let most = if dice.coin() { 136 } else { 512 };
                let at = block as usize * 512 + dice.below(most) as usize;
                let bit = 1 << dice.below(8);
                let damaged = damaged(&disk, &name, |bytes| bytes[at] ^= bit);
                let what = format!("seed {seed}, {name}, byte {at}, bit {bit}");
                refused += u64::from(check(&damaged, &history, &what));
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_file_that_is_cut_off_lost_or_zeroed_is_refused_or_changes_nothing() {
    for seed in 0..60 {
        let (disk, history) = volume(seed);
        let mut dice = Dice(seed);
        for (name, bytes) in disk.contents() {
            if bytes.is_empty() || name == "ballast" {
                continue;
            }
            let at = dice.below(bytes.len() as u64) as usize;
            let block = at / 4096 * 4096;
            type Change = fn(&mut Vec<u8>, usize);
            let changes: [(&str, Change); 4] = [
                ("cut off", |bytes, at| bytes.truncate(at)),
                ("emptied", |bytes, _| bytes.clear()),
                ("zeroed", |bytes, _| bytes.fill(0)),
                ("a block zeroed", |bytes, at| {
                    let end = (at + 4096).min(bytes.len());
                    bytes[at..end].fill(0);
                }),
            ];
            for (kind, change) in changes {
                let at = if kind == "cut off" { at } else { block };
                let damaged = damaged(&disk, &name, |bytes| change(bytes, at));
                check(
                    &damaged,
                    &history,
                    &format!("seed {seed}, {name} {kind} at {at}"),
                );
            }
        }
    }
}

#[test]
fn a_copy_of_parts_of_different_moments_is_refused_or_is_one_moment() {
    let names = ["superblock", "witness", "log/0", "log/1", "log/2", "log/3"];
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let disk = made(seed, 4);
        let mut history = History::new();
        let mut kv = open(&disk).unwrap();
        let mut moments = Vec::new();
        for round in 0..24 {
            history.commit(&kv, &random_ops(&mut dice, 9000)).unwrap();
            if dice.below(5) == 0 {
                kv.write_witness().unwrap();
            }
            if round == 12 && dice.coin() {
                drop(kv);
                kv = open(&disk).unwrap();
            }
            moments.push(disk.crashed(0));
        }
        // Each file is of a moment of its own, the engine of the first or the last of them.
        let engine = if dice.coin() { 0 } else { 23 };
        let copy = moments[engine].crashed(0);
        for name in names {
            let of = &moments[dice.below(24) as usize].contents()[name];
            copy.edit(name, |bytes| bytes.clone_from(of));
        }
        match open(&copy) {
            Err(error) => assert!(is_damage(&error), "seed {seed}: {error}"),
            Ok(kv) => {
                let found = state(&kv).unwrap();
                let is_known = history.states.contains(&found);
                assert!(is_known, "seed {seed}: no moment of the volume");
            }
        }
    }
}

/// A volume with four epochs in the log. Returns where their frames begin.
fn four_epochs() -> (SimulatedDisk, History, Vec<usize>) {
    let disk = made(1, 8);
    let mut history = History::new();
    let kv = open(&disk).unwrap();
    for value in ["1", "2", "3", "4"] {
        history
            .commit(&kv, &[put("a", value), put(value, "x")])
            .unwrap();
    }
    drop(kv);
    (disk, history, vec![0, 4096, 8192, 12_288])
}

#[test]
fn damage_in_the_middle_is_named_and_a_reader_gets_what_is_before_it() {
    let (disk, _, frames) = four_epochs();
    let damaged = damaged(&disk, "log/0", |bytes| bytes[frames[1] + 140] ^= 1);
    let error = open(&damaged).err().unwrap();
    assert!(
        matches!(&error, Error::Corrupt { file, offset: 4096, .. } if file.ends_with("log/0")),
        "{error}"
    );
    let before = damaged.contents();
    let kv = open_for(&damaged, OpenMode::ReadOnly).unwrap();
    assert_eq!(kv.damage(), Some(&error));
    assert_eq!((kv.last_epoch(), get(&kv, "a").as_deref()), (1, Some("1")));
    assert!(damaged.contents() == before);
}

#[test]
fn a_repair_drops_what_is_behind_the_gap_and_goes_on_with_later_epochs() {
    let (disk, _, frames) = four_epochs();
    let damaged = damaged(&disk, "log/0", |bytes| bytes[frames[1] + 140] ^= 1);
    let who = "fsck".to_owned();
    let kv = open_for(&damaged, OpenMode::Repair { who }).unwrap();
    assert!(kv.damage().is_some());
    assert_eq!(get(&kv, "a").as_deref(), Some("1"));
    assert!(kv.last_epoch() > 4);
    kv.commit(kv.last_epoch() + 1, &[put("a", "new")]).unwrap();
    drop(kv);
    let kv = open(&damaged).unwrap();
    assert!(kv.damage().is_none());
    assert_eq!(get(&kv, "a").as_deref(), Some("new"));
}

#[test]
fn an_epoch_that_the_witness_knows_and_the_log_does_not_is_missing() {
    let (disk, _, frames) = four_epochs();
    let kv = open(&disk).unwrap();
    kv.commit(5, &[put("a", "5")]).unwrap();
    kv.write_witness().unwrap();
    drop(kv);
    // Behind the four frames of the first opening.
    let end = frames[3] + 4096;
    let damaged = damaged(&disk, "log/0", |bytes| bytes[end..end + 4096].fill(0));
    let error = open(&damaged).err().unwrap();
    assert!(
        matches!(
            error,
            Error::Gap {
                first: 5,
                newest: 5,
                ..
            }
        ),
        "{error}"
    );
    let kv = open_for(&damaged, OpenMode::ReadOnly).unwrap();
    assert_eq!(get(&kv, "a").as_deref(), Some("4"));
}

#[test]
fn a_torn_last_frame_that_was_not_witnessed_ends_the_log() {
    let (disk, _, frames) = four_epochs();
    let torn = damaged(&disk, "log/0", |bytes| bytes[frames[3] + 150] ^= 1);
    let kv = open(&torn).unwrap();
    assert_eq!((kv.last_epoch(), get(&kv, "a").as_deref()), (3, Some("3")));
    kv.commit(4, &[put("a", "other")]).unwrap();
    drop(kv);
    assert_eq!(get(&open(&torn).unwrap(), "a").as_deref(), Some("other"));
}

#[test]
fn the_last_frame_but_one_is_missed_also_before_the_witness_knows_the_last() {
    let (disk, _, frames) = four_epochs();
    let damaged = damaged(&disk, "log/0", |bytes| bytes[frames[2] + 150] ^= 1);
    let error = open(&damaged).err().unwrap();
    assert!(
        matches!(error, Error::Corrupt { offset: 8192, .. }),
        "{error}"
    );
}

/// Once, a reader saw the changes of older epochs over tables that have newer ones, and a repair
/// kept that.
#[test]
fn tables_that_are_ahead_of_a_damaged_log_are_shown_without_it() {
    let disk = made(1, 8);
    let mut history = History::new();
    let kv = open(&disk).unwrap();
    for value in ["1", "2", "3", "4"] {
        history
            .commit(&kv, &[put("a", value), put(value, "x")])
            .unwrap();
    }
    kv.checkpoint().unwrap();
    drop(kv);
    let newest = newest_slot(&disk);
    disk.edit("superblock", |bytes| bytes[newest + 80] ^= 1);
    disk.edit("log/0", |bytes| bytes[8192 + 140] ^= 1);
    assert!(is_damage(&open(&disk).err().unwrap()));
    let kv = open_for(&disk, OpenMode::ReadOnly).unwrap();
    assert!(kv.damage().is_some());
    assert_eq!(state(&kv).unwrap(), history.states[4]);
    drop(kv);
    let who = "fsck".to_owned();
    drop(open_for(&disk, OpenMode::Repair { who }).unwrap());
    assert_eq!(state(&open(&disk).unwrap()).unwrap(), history.states[4]);
}

#[test]
fn frames_of_a_later_incarnation_tell_that_its_slot_is_damaged() {
    let disk = made(1, 8);
    open(&disk).unwrap().commit(1, &[put("a", "1")]).unwrap();
    let kv = open(&disk).unwrap();
    kv.commit(2, &[put("a", "2")]).unwrap();
    drop(kv);
    let newest = newest_slot(&disk);
    let damaged = damaged(&disk, "superblock", |bytes| bytes[newest + 80] ^= 1);
    let error = open(&damaged).err().unwrap();
    assert!(is_damage(&error), "{error}");
}

/// A frame without records, as anybody can write it into a file.
fn frame_of(incarnation: [u8; 16], epoch: u64) -> Vec<u8> {
    let header = frame::Header {
        incarnation,
        epoch,
        part: 0,
        parts: 1,
        length: 0,
        flags: 0,
        before: [0; 32],
        nonce: [0; 24],
        digest: [0; 32],
    };
    let mut bytes = Vec::new();
    frame::append(&mut bytes, &header, |_| {}, None).unwrap();
    bytes
}

/// A change that lies first in its frame and whose value has `planted` at the beginning of the
/// second block of it.
fn bytes_of_a_file(planted: &[u8]) -> KvOp {
    // Header of the frame, head of the record, key.
    let mut value = vec![b'x'; 4096 - 136 - 8 - 1];
    value.extend_from_slice(planted);
    KvOp {
        value: Some(value.into()),
        ..put("a", "")
    }
}

/// Where the slot of the superblock begins that counts.
fn newest_slot(disk: &SimulatedDisk) -> usize {
    let slots = &disk.contents()["superblock"];
    let newest = [0, 4096].into_iter().max_by_key(|at| slots[at + 72]);
    newest.unwrap()
}

/// The incarnation of the last opening for writing.
fn incarnation(disk: &SimulatedDisk) -> [u8; 16] {
    let slots = &disk.contents()["superblock"];
    slots[newest_slot(disk) + 56..][..16].try_into().unwrap()
}

/// Once, such a file kept the volume from being mounted, and a repair wrote zeros over its bytes.
#[test]
fn bytes_of_a_file_that_look_like_a_frame_are_no_frame() {
    for epoch in [3, u64::MAX] {
        let disk = made(1, 8);
        let op = bytes_of_a_file(&frame_of([7; 16], epoch));
        let kv = open(&disk).unwrap();
        kv.commit(1, std::slice::from_ref(&op)).unwrap();
        kv.commit(2, &[put("b", "2")]).unwrap();
        drop(kv);
        let kv = open(&disk).unwrap_or_else(|error| panic!("{epoch}: {error}"));
        assert_eq!(kv.last_epoch(), 2);
        let found = kv.get(Table::Meta, b"a").unwrap();
        assert_eq!(found.as_deref(), op.value.as_deref());
    }
}

#[test]
fn no_frame_is_looked_for_inside_a_frame_that_was_taken() {
    let disk = made(1, 8);
    let kv = open(&disk).unwrap();
    let op = bytes_of_a_file(&frame_of(incarnation(&disk), 9));
    kv.commit(1, std::slice::from_ref(&op)).unwrap();
    drop(kv);
    let kv = open(&disk).unwrap();
    assert_eq!(kv.last_epoch(), 1);
    let found = kv.get(Table::Meta, b"a").unwrap();
    assert_eq!(found.as_deref(), op.value.as_deref());
}

/// Once, the number of the next epoch began again at 0.
#[test]
fn a_repair_does_not_count_beyond_the_last_epoch_that_there_can_be() {
    let (disk, _, _) = four_epochs();
    for epoch in [u64::MAX - 1, u64::MAX] {
        let late = frame_of(incarnation(&disk), epoch);
        let damaged = damaged(&disk, "log/1", |bytes| {
            bytes[8192..][..late.len()].copy_from_slice(&late);
        });
        let before = damaged.contents();
        assert!(is_damage(&open(&damaged).err().unwrap()));
        let who = "fsck".to_owned();
        let error = open_for(&damaged, OpenMode::Repair { who }).err().unwrap();
        assert!(error.to_string().contains(&epoch.to_string()), "{error}");
        assert!(damaged.contents() == before);
    }
}
