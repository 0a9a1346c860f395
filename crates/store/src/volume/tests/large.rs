//! Epochs that the ring of log files has no room for.

use super::harness::*;
use crate::disk::Disk;
use crate::disk::simulated::{Fault, SimulatedDisk};
use crate::volume::OpenMode;
use crate::{Error, KvOp};

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
