//! Power cuts at every step and at random ones: what is found afterwards is a prefix of what was
//! committed, and has everything that was acknowledged.

use super::harness::*;
use crate::Error;
use crate::disk::simulated::{Dice, Fault, SimulatedDisk};
use crate::volume::Kv;

/// Opens, checks, and commits at random until the power fails or `commits` are done.
fn run(
    disk: &SimulatedDisk,
    history: &mut History,
    dice: &mut Dice,
    commits: u64,
) -> Result<(), String> {
    let mut kv = match open(disk) {
        Ok(kv) => kv,
        Err(_) if disk.is_off() => return Ok(()),
        Err(error) => return Err(format!("opening: {error}")),
    };
    history.check(&kv)?;
    for _ in 0..commits {
        let most = if dice.below(4) == 0 { 16_000 } else { 5000 };
        let done = match dice.below(20) {
            0 => kv.checkpoint(),
            1 => kv.write_witness(),
            2 => {
                let closed = if dice.coin() { kv.close() } else { Ok(()) };
                drop(kv);
                match closed.and_then(|()| open(disk)) {
                    Ok(again) => kv = again,
                    Err(_) if disk.is_off() => return Ok(()),
                    Err(error) => return Err(format!("opening again: {error}")),
                }
                history.check(&kv)?;
                Ok(())
            }
            _ => history.commit(&kv, &random_ops(dice, most)),
        };
        match done {
            Ok(()) => {}
            Err(_) if disk.is_off() => return Ok(()),
            Err(error) => return Err(format!("a step: {error}")),
        }
    }
    history.check(&kv)
}

fn cuts(seed: u64) -> Result<u64, String> {
    let mut dice = Dice(seed);
    let mut disk = made(seed, 4 + dice.below(4));
    let mut history = History::new();
    let rounds = 8;
    for _ in 0..rounds {
        let now = disk.counts().steps;
        disk.cut_at(now + dice.below(90));
        run(&disk, &mut history, &mut dice, 40)?;
        disk = disk.crashed(dice.below(u64::MAX));
    }
    Ok(rounds)
}

#[test]
fn after_random_cuts_a_prefix_with_everything_acknowledged_is_there() {
    let mut cut = 0;
    for seed in 0..600 {
        match cuts(seed) {
            Ok(more) => cut += more,
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    assert!(cut > 4000);
}

/// A fixed history with each kind of step in it.
fn script(kv: &Kv, history: &mut History) -> crate::Result<()> {
    let mut dice = Dice(99);
    for round in 0..14 {
        history.commit(kv, &random_ops(&mut dice, 9000))?;
        match round {
            3 | 8 => kv.write_witness()?,
            5 => kv.checkpoint()?,
            _ => {}
        }
    }
    kv.close()
}

/// Steps of opening a new volume and of the script.
fn script_steps() -> std::ops::Range<u64> {
    let disk = made(1, 4);
    let begin = disk.counts().steps;
    let kv = open(&disk).unwrap();
    script(&kv, &mut History::new()).unwrap();
    begin..disk.counts().steps
}

#[test]
fn a_cut_at_every_step_leaves_a_prefix() {
    for step in script_steps() {
        for seed in 0..8 {
            let disk = made(1, 4);
            disk.cut_at(step);
            let mut history = History::new();
            if let Ok(kv) = open(&disk) {
                let _ = script(&kv, &mut history);
            }
            assert!(disk.is_off());
            let disk = disk.crashed(seed);
            let found = open(&disk).map_err(|error| error.to_string());
            let checked = found.and_then(|kv| history.check(&kv));
            checked.unwrap_or_else(|what| panic!("step {step}, seed {seed}: {what}"));
        }
    }
}

#[test]
fn a_cut_while_an_opening_replays_changes_nothing() {
    let crashed = || {
        let disk = made(2, 4);
        let kv = open(&disk).unwrap();
        let mut history = History::new();
        let mut dice = Dice(5);
        for _ in 0..3 {
            history.commit(&kv, &random_ops(&mut dice, 9000)).unwrap();
        }
        (disk.crashed(1), history)
    };
    let (disk, _) = crashed();
    open(&disk).unwrap();
    for step in 0..disk.counts().steps {
        for seed in 0..10 {
            let (disk, mut history) = crashed();
            disk.cut_at(step);
            let opened = open(&disk);
            assert!(disk.is_off());
            drop(opened);
            let kv = open(&disk.crashed(seed)).unwrap();
            history.check(&kv).unwrap();
        }
    }
}

#[test]
fn a_device_that_fails_at_any_step_latches_and_loses_nothing_acknowledged() {
    for step in script_steps() {
        let disk = made(1, 4);
        disk.fail_at(step, Fault::Device);
        let mut history = History::new();
        if let Ok(kv) = open(&disk) {
            let failed = script(&kv, &mut history);
            if failed.is_err() {
                assert!(kv.latched().is_some(), "step {step}");
                match kv.commit(1000, &[put("a", "b")]) {
                    // It failed while it was closed.
                    Err(Error::Closed) => {}
                    Err(Error::ReadOnly { .. }) => {
                        let seen = state(&kv).unwrap();
                        assert!(seen == history.states[history.acknowledged], "step {step}");
                    }
                    other => panic!("step {step}: {other:?}"),
                }
            }
        }
        for seed in 0..4 {
            let kv = open(&disk.crashed(seed));
            let kv = kv.unwrap_or_else(|error| panic!("step {step}, seed {seed}: {error}"));
            history
                .clone()
                .check(&kv)
                .unwrap_or_else(|what| panic!("step {step}, seed {seed}: {what}"));
        }
    }
}

#[test]
fn mkfs_that_was_cut_at_any_step_is_unfinished_and_can_be_repeated() {
    let steps = made(3, 4).counts().steps;
    for step in 0..steps {
        for seed in 0..6 {
            let disk = SimulatedDisk::new(3);
            disk.cut_at(step);
            assert!(mkfs(&disk, 4).is_err());
            let disk = disk.crashed(seed);
            match open(&disk) {
                Ok(kv) => assert_eq!(kv.last_epoch(), 0),
                Err(error) => {
                    let is_empty = matches!(error, Error::NotAVolume { .. });
                    let is_begun = matches!(error, Error::Unfinished { .. });
                    assert!(is_begun || is_empty, "step {step}: {error}");
                    mkfs(&disk, 4).unwrap_or_else(|error| panic!("step {step}: {error}"));
                    open(&disk).unwrap().commit(1, &[put("a", "b")]).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_change_of_wrapped_keys_that_is_cut_leaves_the_old_or_the_new_ones() {
    for step in 0..5 {
        for seed in 0..20 {
            let disk = made(4, 4);
            let kv = open(&disk).unwrap();
            kv.set_wrapped_keys(b"old").unwrap();
            disk.cut_at(disk.counts().steps + step);
            let done = kv.set_wrapped_keys(b"new");
            let kv = open(&disk.crashed(seed)).unwrap();
            let keys = kv.info().wrapped_keys;
            assert!(keys == b"new" || (done.is_err() && keys == b"old"));
        }
    }
}

/// Once, the error of the second slot was told as it was, and the old passphrase opened nothing.
#[test]
fn a_change_of_wrapped_keys_that_fails_says_which_ones_are_there() {
    for fault in [Fault::Device, Fault::NoSpace] {
        let mut said = [0; 3];
        for step in 0..5 {
            for seed in 0..20 {
                let disk = made(4, 4);
                let kv = open(&disk).unwrap();
                kv.set_wrapped_keys(b"old").unwrap();
                disk.fail_at(disk.counts().steps + step, fault);
                let done = kv.set_wrapped_keys(b"new");
                let found = open(&disk.crashed(seed)).unwrap().info().wrapped_keys;
                let is_new = found == b"new";
                match done {
                    Ok(()) => said[0] += u32::from(is_new),
                    Err(Error::KeysInDoubt { are_new: true, .. }) => said[1] += u32::from(is_new),
                    Err(Error::KeysInDoubt { .. }) => said[2] += 1,
                    Err(error) => panic!("step {step}, seed {seed}: {error}"),
                }
                assert!(
                    is_new || found == b"old",
                    "step {step}, seed {seed}: {found:?}"
                );
            }
        }
        // A write and a flush for each slot, and one step behind them.
        assert_eq!(said, [20, 40, 40], "{fault:?}");
    }
}
