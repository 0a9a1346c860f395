//! Facts about full disks.

use super::harness::*;
use crate::disk::simulated::{Dice, Fault, SimulatedDisk};
use crate::volume::Kv;
use crate::{Error, Result};

/// Repeats what found no room; fails after too many times.
fn again(mut call: impl FnMut() -> Result<()>) -> Result<()> {
    for _ in 0..3 {
        match call() {
            Err(Error::NoSpace { .. }) => {}
            done => return done,
        }
    }
    call()
}

fn script(kv: &Kv, history: &mut History) -> Result<()> {
    let mut dice = Dice(77);
    for round in 0..14 {
        let ops = random_ops(&mut dice, 9000);
        again(|| history.commit(kv, &ops))?;
        match round {
            4 => again(|| kv.write_witness())?,
            7 => again(|| kv.checkpoint())?,
            _ => {}
        }
    }
    again(|| kv.checkpoint())?;
    kv.close()
}

fn steps() -> u64 {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    script(&kv, &mut History::new()).unwrap();
    disk.counts().steps
}

#[test]
fn a_full_disk_at_any_call_is_survived_by_trying_again() {
    let begin = made(1, 4).counts().steps;
    for step in begin..steps() {
        for length in [1, 2, 3] {
            let disk = made(1, 4);
            (step..step + length).for_each(|step| disk.fail_at(step, Fault::NoSpace));
            let mut history = History::new();
            let opened = |disk: &SimulatedDisk| {
                let opened = (0..4).find_map(|_| open(disk).ok());
                opened.unwrap_or_else(|| panic!("step {step}"))
            };
            let kv = opened(&disk);
            script(&kv, &mut history).unwrap_or_else(|error| panic!("step {step}: {error}"));
            assert_eq!(kv.latched(), None, "step {step}");
            drop(kv);
            assert_eq!(history.acknowledged, 14);
            for disk in [disk.clone(), disk.crashed(step)] {
                history.clone().check(&opened(&disk)).unwrap();
            }
        }
    }
}

#[test]
fn a_crash_after_a_refused_commit_and_its_repetition_keeps_the_repetition() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let disk = made(seed, 4);
        let kv = open(&disk).unwrap();
        let mut history = History::new();
        for _ in 0..12 {
            let now = disk.counts().steps;
            if dice.coin() {
                disk.fail_at(now + dice.below(3), Fault::NoSpace);
            }
            // The repetition holds other operations than the attempt.
            let mut done = history.commit(&kv, &random_ops(&mut dice, 9000));
            for _ in 0..4 {
                if done.is_ok() {
                    break;
                }
                done = history.commit(&kv, &random_ops(&mut dice, 9000));
            }
            done.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        let kv = open(&disk.crashed(seed)).unwrap();
        let checked = history.check(&kv);
        checked.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn mkfs_on_a_full_disk_can_be_repeated() {
    let steps = made(1, 4).counts().steps;
    for step in 0..steps {
        let disk = SimulatedDisk::new(1);
        disk.fail_at(step, Fault::NoSpace);
        if let Err(error) = mkfs(&disk, 4) {
            assert!(
                matches!(error, Error::NoSpace { .. } | Error::NoRoomToMake { .. }),
                "step {step}: {error}"
            );
            if open(&disk).is_err() {
                mkfs(&disk, 4).unwrap_or_else(|error| panic!("step {step}: {error}"));
            }
        }
        open(&disk).unwrap();
    }
}

#[test]
fn room_is_what_the_disk_has_less_the_ballast_that_is_missing() {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    disk.set_free(1 << 20);
    assert_eq!(kv.room().unwrap().1, 1 << 20);
    disk.edit("ballast", |bytes| bytes.truncate(4096));
    let ballast = 4 * 4 * 4096;
    assert_eq!(kv.room().unwrap().1, (1 << 20) - (ballast - 4096));
}

#[test]
fn a_volume_opens_on_a_full_disk_and_goes_on_when_there_is_room() {
    let disk = made(1, 16);
    let mut history = History::new();
    let kv = open(&disk).unwrap();
    for value in ["1", "2", "3"] {
        history.commit(&kv, &[put("a", value)]).unwrap();
    }
    drop(kv);
    // Writes into files that hold their blocks work; tables and the ballast find no room.
    disk.set_full(true);
    for round in 0..3 {
        let kv = open(&disk).unwrap();
        history.check(&kv).unwrap();
        assert_eq!(kv.opened(), 2 + round);
        history.commit(&kv, &[put("b", "x")]).unwrap();
        assert!(matches!(kv.checkpoint(), Err(Error::NoSpace { .. })));
        assert_eq!(kv.latched(), None);
        drop(kv);
        history
            .clone()
            .check(&open(&disk.crashed(round.into())).unwrap())
            .unwrap();
    }
    disk.set_full(false);
    let kv = open(&disk).unwrap();
    history.check(&kv).unwrap();
    history.commit(&kv, &[put("c", "y")]).unwrap();
    kv.checkpoint().unwrap();
    assert_eq!(kv.info().checkpoint, kv.last_epoch());
}

/// Once, all files of the log counted as full after such an opening: on a full disk not even a
/// removal found room.
#[test]
fn after_an_opening_without_a_checkpoint_the_free_files_of_the_log_are_used() {
    let disk = made(1, 4);
    let mut history = History::new();
    let kv = open(&disk).unwrap();
    for value in ["1", "2", "3"] {
        history.commit(&kv, &[put("a", value)]).unwrap();
    }
    drop(kv);
    disk.set_full(true);
    let kv = open(&disk).unwrap();
    // One block of the first file and four of each other one.
    for left in (0..13).rev() {
        let done = history.commit(&kv, &[remove("a")]);
        done.unwrap_or_else(|error| panic!("{left} blocks are left: {error}"));
    }
    let refused = history.commit(&kv, &[remove("a")]);
    assert!(matches!(refused, Err(Error::NoSpace { .. })));
    history
        .clone()
        .check(&open(&disk.crashed(1)).unwrap())
        .unwrap();
    drop(kv);
    // The files of the replay are not free.
    let kv = open(&disk).unwrap();
    let refused = history.commit(&kv, &[put("b", "x")]);
    assert!(matches!(refused, Err(Error::NoSpace { .. })));
    history
        .clone()
        .check(&open(&disk.crashed(2)).unwrap())
        .unwrap();
    disk.set_full(false);
    history.commit(&kv, &[put("b", "x")]).unwrap();
    history.check(&open(&disk.crashed(3)).unwrap()).unwrap();
}
