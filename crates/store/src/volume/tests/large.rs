//! Epochs that the ring of log files has no room for.

use super::harness::*;
use crate::disk::Disk;
use crate::disk::simulated::{Fault, SimulatedDisk};
use crate::volume::OpenMode;
use crate::{Error, KvOp};
use hearth_sync::primitive::{Arc, Mutex};

/// Records of 180 KiB: the ring of `made(_, 4)` has 64 KiB.
fn many() -> Vec<KvOp> {
    let value = "v".repeat(9000);
    (0..20).map(|at| put(&format!("{at}"), &value)).collect()
}

/// The files of epochs that a disk has.
fn files(disk: &SimulatedDisk) -> Vec<String> {
    let names = disk.list("log").unwrap();
    names
        .into_iter()
        .filter(|name| name.starts_with("epoch-"))
        .collect()
}

#[test]
fn an_epoch_larger_than_the_log_is_taken_and_its_file_goes_with_the_checkpoint() {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    kv.commit(1, &[put("first", "1")]).unwrap();
    kv.commit(2, &many()).unwrap();
    kv.commit(3, &[put("last", "3")]).unwrap();
    assert_eq!(files(&disk), ["epoch-2"]);

    let kv = open(&disk.crashed(1)).unwrap();
    assert_eq!(kv.last_epoch(), 3);
    assert_eq!(state(&kv).unwrap()[0].len(), 22);
    drop(kv);

    let kv = open(&disk).err();
    assert!(matches!(kv, Some(Error::InUse { .. })));
    let disk = disk.crashed(2);
    let kv = open(&disk).unwrap();
    assert_eq!(
        files(&disk),
        [""; 0],
        "the checkpoint of the opening has it"
    );
    kv.commit(4, &many()).unwrap();
    kv.checkpoint().unwrap();
    assert_eq!(files(&disk), [""; 0]);
    assert_eq!(state(&kv).unwrap()[0].len(), 22);
}

/// Once, such a record was refused, and with it every later sync of a small log.
#[test]
fn a_record_larger_than_a_file_of_the_log_is_taken() {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    let value = "x".repeat(40_000);
    kv.commit(1, &[put("a", "1"), put("b", &value), put("c", "1")])
        .unwrap();
    assert_eq!(files(&disk), ["epoch-1"]);
    let kv = open(&disk.crashed(1)).unwrap();
    assert_eq!(get(&kv, "b").as_deref(), Some(&value[..]));
    kv.commit(2, &[put("d", &value)]).unwrap();
    kv.checkpoint().unwrap();
    assert_eq!(get(&kv, "d").as_deref(), Some(&value[..]));
    assert_eq!(state(&kv).unwrap()[0].len(), 4);
}

#[test]
fn a_large_epoch_is_there_as_a_whole_or_not_at_all() {
    for seed in 0..600 {
        let disk = made(seed, 4);
        let kv = open(&disk).unwrap();
        kv.commit(1, &[put("first", "1")]).unwrap();
        disk.cut_at(disk.counts().steps + seed % 8);
        let done = kv.commit(2, &many());
        let after = disk.crashed(seed);
        let kv = open(&after).unwrap();
        let count = state(&kv).unwrap()[0].len();
        assert!(
            count == 21 || (count == 1 && done.is_err()),
            "{seed}: {count}"
        );
        assert_eq!(files(&after), [""; 0], "{seed}");
    }
}

/// Once, when the flush of the second file of an epoch failed for want of room, the first one
/// counted as in use by that epoch, which no checkpoint has: the commit that tried again never
/// returned.
#[test]
fn an_epoch_that_fails_at_the_second_of_two_files_is_taken_later() {
    let mut refused = 0;
    for (filled, step) in (0..8).flat_map(|filled| (0..8).map(move |step| (filled, step))) {
        let disk = made(1, 4);
        let kv = open(&disk).unwrap();
        kv.commit(1, &[put("first", &"x".repeat(filled * 2000))])
            .unwrap();
        let now = disk.counts().steps;
        // Beyond what the ballast makes good.
        (now + step..now + step + 12).for_each(|step| disk.fail_at(step, Fault::NoSpace));
        let value = "v".repeat(3000);
        let ops: Vec<_> = (0..8).map(|at| put(&format!("{at}"), &value)).collect();
        for epoch in 2..20 {
            while let Err(error) = kv.commit(epoch, &ops) {
                assert!(matches!(error, Error::NoSpace { .. }), "{error}");
                refused += 1;
            }
        }
        assert_eq!(state(&kv).unwrap()[0].len(), 9);
    }
    assert!(refused > 0, "no commit failed");
}

#[test]
fn a_disk_that_fails_in_a_large_epoch_takes_it_later_or_latches() {
    let mut full = 0;
    for step in 0..8 {
        for fault in [Fault::NoSpace, Fault::Device] {
            let disk = made(1, 4);
            let kv = open(&disk).unwrap();
            kv.commit(1, &[put("first", "1")]).unwrap();
            disk.fail_at(disk.counts().steps + step, fault);
            match kv.commit(2, &many()) {
                // The ballast was given up for it, or the step came later.
                Ok(()) => {}
                Err(Error::NoSpace { .. }) => {
                    full += 1;
                    kv.commit(2, &many()).unwrap();
                }
                Err(error) => assert!(fault == Fault::Device, "{error}"),
            }
            let count = state(&open(&disk.crashed(step)).unwrap()).unwrap()[0].len();
            assert!(
                count == 21 || count == 1 && fault == Fault::Device,
                "{step}: {count}"
            );
        }
    }
    assert!(full < 8);
}

/// Once, the retry removed the file of the epoch while the ring might still name it, and found no
/// room for a new one: the next opening for writing was refused.
#[test]
fn a_volume_opens_after_any_two_lacks_of_room_in_a_large_epoch() {
    let mut refused = 0;
    for (first, second) in (0..12).flat_map(|first| (0..12).map(move |second| (first, second))) {
        let disk = made(1, 4);
        let kv = open(&disk).unwrap();
        kv.commit(1, &[put("first", "1")]).unwrap();
        let now = disk.counts().steps;
        for step in [first, first + 1 + second] {
            disk.fail_at(now + step, Fault::NoSpace);
        }
        match kv.commit(2, &many()) {
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error, Error::NoSpace { .. }), "{error}");
                refused += 1;
            }
        }
        for seed in 0..3 {
            let kv = open(&disk.crashed(seed));
            let kv = kv.unwrap_or_else(|error| panic!("{first}, {second}: {error}"));
            let count = state(&kv).unwrap()[0].len();
            assert!(count == 1 || count == 21, "{first}, {second}: {count}");
        }
    }
    assert!(refused > 0, "there was always room");
}

#[test]
fn damage_in_the_file_of_an_epoch_is_named_and_nothing_older_opens() {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    kv.commit(1, &[put("first", "1")]).unwrap();
    kv.commit(2, &many()).unwrap();
    kv.commit(3, &[put("last", "3")]).unwrap();
    let length = disk.contents()["log/epoch-2"].len();
    let mut refusals = 0;
    for at in (0..length).step_by(997) {
        let disk = disk.crashed(at as u64);
        disk.edit("log/epoch-2", |bytes| bytes[at] ^= 1);
        // Bytes behind the end of a frame belong to nothing.
        let is_padding = open(&disk).is_ok();
        if is_padding {
            continue;
        }
        refusals += 1;
        let refused = open(&disk).err().unwrap().to_string();
        assert!(refused.contains("log/epoch-2"), "{at}: {refused}");
        let kv = open_for(&disk, OpenMode::ReadOnly).unwrap();
        assert_eq!(kv.last_epoch(), 1);
        assert!(kv.damage().unwrap().to_string().contains("log/epoch-2"));
    }
    assert!(refusals * 997 > length * 7 / 10, "{refusals} of {length}");
    let gone = disk.crashed(0);
    gone.remove("log/epoch-2").unwrap();
    let refused = open(&gone).err().unwrap().to_string();
    assert!(refused.contains("log/epoch-2"), "{refused}");
}

/// Once, its file went when one of the two slots had the epoch: then the other one led to a frame
/// that names a file which is not there.
#[test]
fn a_damaged_slot_behind_a_large_epoch_leaves_a_volume_that_opens() {
    let disk = made(1, 4);
    let mut history = History::new();
    let kv = open(&disk).unwrap();
    history.commit(&kv, &[put("first", "1")]).unwrap();
    kv.checkpoint().unwrap();
    history.commit(&kv, &[put("first", "2")]).unwrap();
    history.commit(&kv, &many()).unwrap();
    let killed = disk.crashed(0);
    let steps = disk.counts().steps;
    kv.checkpoint().unwrap();
    let ended = disk.counts().steps;
    drop(kv);
    for at in [80, 4096 + 80] {
        let damaged = disk.crashed(0);
        damaged.edit("superblock", |bytes| bytes[at] ^= 1);
        let kv = open(&damaged).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        history.clone().check(&kv).unwrap();
    }
    // The checkpoint of an opening does the same.
    drop(open(&killed).unwrap());
    for at in [80, 4096 + 80] {
        let damaged = killed.crashed(0);
        damaged.edit("superblock", |bytes| bytes[at] ^= 1);
        let kv = open(&damaged).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        history.clone().check(&kv).unwrap();
    }
    // Wherever the power fails in the checkpoint.
    for step in steps..=ended {
        let disk = made(1, 4);
        let kv = open(&disk).unwrap();
        let mut history = History::new();
        history.commit(&kv, &[put("first", "1")]).unwrap();
        kv.checkpoint().unwrap();
        history.commit(&kv, &[put("first", "2")]).unwrap();
        history.commit(&kv, &many()).unwrap();
        disk.cut_at(step);
        let _ = kv.checkpoint();
        for (seed, at) in (0..4).flat_map(|seed| [(seed, 80), (seed, 4096 + 80)]) {
            let damaged = disk.crashed(seed);
            damaged.edit("superblock", |bytes| bytes[at] ^= 1);
            let whole = disk.crashed(seed).contents()["superblock"].clone();
            if is_alone(&whole, at) {
                continue;
            }
            let kv = open(&damaged);
            let kv = kv.unwrap_or_else(|error| panic!("step {step}, byte {at}: {error}"));
            history.clone().check(&kv).unwrap();
        }
    }
}

/// Whether the slot with this byte is the only whole one.
fn is_alone(slots: &[u8], at: usize) -> bool {
    let other = if at < 4096 { 4096 } else { 0 };
    let other = &slots[other..][..4096];
    blake3::hash(&other[..4064]).as_bytes() != &other[4064..4096]
}

/// Once, nobody was told.
#[test]
fn a_file_of_an_epoch_that_cannot_be_removed_is_told_and_goes_with_the_next_opening() {
    let disk = made(1, 4);
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let to = Arc::clone(&lines);
    let told = move |line: &str| to.lock().push(line.to_owned());
    let kv = open_told(&disk, writer(), told).unwrap();
    kv.commit(1, &many()).unwrap();
    // The removal is the last step of the checkpoint that writes both slots.
    let before = disk.counts().steps;
    kv.checkpoint().unwrap();
    let steps = disk.counts().steps - before;
    assert_eq!(lines.lock()[..], [""; 0]);
    kv.commit(2, &many()).unwrap();
    disk.fail_at(disk.counts().steps + steps - 1, Fault::Device);
    kv.checkpoint().unwrap();
    assert_eq!(files(&disk), ["epoch-2"]);
    let line = "the file of a large epoch stays until the next opening: ";
    assert!(lines.lock()[0].starts_with(line), "{lines:?}");
    drop(kv);
    let disk = disk.crashed(1);
    drop(open(&disk).unwrap());
    assert_eq!(files(&disk), [""; 0]);
}
