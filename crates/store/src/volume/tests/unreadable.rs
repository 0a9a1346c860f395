//! Sectors that cannot be read: as if their bytes were not those that were written.

use super::harness::*;
use crate::disk::simulated::SimulatedDisk;
use crate::volume::OpenMode;

/// A volume with a checkpoint and two epochs behind it, whose witness is up to date.
fn two_behind_a_checkpoint() -> (SimulatedDisk, History) {
    let disk = made(1, 16);
    let mut history = History::new();
    let kv = open(&disk).unwrap();
    for value in ["1", "2", "3"] {
        history.commit(&kv, &[put("a", value)]).unwrap();
    }
    kv.checkpoint().unwrap();
    history.commit(&kv, &[put("b", "4")]).unwrap();
    history.commit(&kv, &[put("c", "5")]).unwrap();
    kv.write_witness().unwrap();
    drop(kv);
    (disk, history)
}

/// Once, an error of the disk in one of two slots was an error of the opening.
#[test]
fn one_slot_that_cannot_be_read_leaves_the_other_one() {
    for (name, slot) in [("superblock", 4096), ("witness", 512)] {
        for at in [0, slot] {
            let (disk, history) = two_behind_a_checkpoint();
            disk.make_unreadable(name, at..at + 512);
            for mode in [OpenMode::ReadOnly, writer(), writer()] {
                let kv = open_for(&disk, mode);
                let kv = kv.unwrap_or_else(|error| panic!("{name}, byte {at}: {error}"));
                assert_eq!(kv.damage(), None);
                history.clone().check(&kv).unwrap();
            }
        }
    }
}

#[test]
fn a_volume_none_of_whose_slots_can_be_read_is_not_opened() {
    let (disk, _) = two_behind_a_checkpoint();
    disk.make_unreadable("superblock", 0..8192);
    let error = open(&disk).err().unwrap().to_string();
    assert!(error.contains("superblock"), "{error}");
}

/// Once, a bad sector anywhere in the log kept a volume from being mounted.
#[test]
fn a_block_of_the_log_that_cannot_be_read_costs_what_was_in_it() {
    // Two epochs behind the checkpoint, the place of the next one, and its place if it does not
    // fit there.
    let needed = [3, 4, 5, 16];
    for block in 0..64_u64 {
        let (disk, history) = two_behind_a_checkpoint();
        let name = format!("log/{}", block / 16);
        let at = block % 16 * 4096;
        disk.make_unreadable(&name, at..at + 4096);
        let opened = open(&disk);
        if !needed.contains(&block) {
            let kv = opened.unwrap_or_else(|error| panic!("block {block}: {error}"));
            history.clone().check(&kv).unwrap();
            continue;
        }
        let error = opened.err().unwrap();
        assert!(is_damage(&error), "block {block}: {error}");
        let kv = open_for(&disk, OpenMode::ReadOnly).unwrap();
        assert_eq!(kv.damage(), Some(&error));
        assert!(history.states.contains(&state(&kv).unwrap()));
        drop(kv);
        let who = "fsck".to_owned();
        let kv = open_for(&disk, OpenMode::Repair { who }).unwrap();
        let found = state(&kv).unwrap();
        drop(kv);
        // What a repair writes can be read again.
        let kv = open(&disk).unwrap_or_else(|error| panic!("block {block}: {error}"));
        assert_eq!(state(&kv).unwrap(), found);
    }
}

#[test]
fn a_part_of_a_frame_that_cannot_be_read_costs_that_epoch() {
    let disk = made(1, 16);
    let kv = open(&disk).unwrap();
    let mut history = History::new();
    history.commit(&kv, &[put("a", "1")]).unwrap();
    history.commit(&kv, &[put("b", &"x".repeat(9000))]).unwrap();
    drop(kv);
    disk.make_unreadable("log/0", 12_288..12_800);
    let error = open(&disk).err().unwrap();
    assert!(is_damage(&error), "{error}");
    assert!(error.to_string().contains("log/0"), "{error}");
    let kv = open_for(&disk, OpenMode::ReadOnly).unwrap();
    assert_eq!(state(&kv).unwrap(), history.states[1]);
}

#[test]
fn the_file_of_a_large_epoch_that_cannot_be_read_is_damage() {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    kv.commit(1, &[put("a", "1")]).unwrap();
    kv.commit(2, &[put("b", &"x".repeat(40_000))]).unwrap();
    drop(kv);
    disk.make_unreadable("log/epoch-2", 8192..12_288);
    let error = open(&disk).err().unwrap();
    assert!(is_damage(&error), "{error}");
    assert!(error.to_string().contains("log/epoch-2"), "{error}");
    let kv = open_for(&disk, OpenMode::ReadOnly).unwrap();
    assert_eq!(get(&kv, "a").as_deref(), Some("1"));
}
