//! Power cuts under whole volumes: random scripts of the model on a store on a simulated disk. The
//! disk is kept as it was before each of its steps, so one run of a script gives hundreds of cuts.
//! Each loses any of what was not synced and is opened again.
//!
//! `HEARTH_SEED` begins with another script, `HEARTH_ROUNDS` is how many there are.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cuts/faults.rs"]
mod faults;
#[path = "cuts/found.rs"]
mod found;
#[path = "cuts/history.rs"]
mod history;
#[path = "cuts/regressions.rs"]
mod regressions;
#[path = "cuts/run.rs"]
mod run;
#[path = "cuts/script.rs"]
mod script;
#[path = "cuts/watched.rs"]
mod watched;

#[path = "model/driver.rs"]
mod driver;

use hearth_model::reduce;
use hearth_store::disk::simulated::{Dice, Moment};
use run::Run;
use script::{Step, listing, script};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// Scripts of a run of the tests, and cuts of each.
const SCRIPTS: u64 = 100;
const CUTS: usize = 110;
/// Runs of parts of a script that fails, to find a short one.
const TRIES: u32 = 300;
/// Scripts that meet faults.
const FAULTY: u64 = 60;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        let what = format!("{name} is a number");
        text.parse().expect(&what)
    })
}

/// Runs the script of `seed` and checks what cuts leave; returns how many there were.
fn cuts(seed: u64, steps: &[Step]) -> Result<u64, String> {
    let mut run = Run::new(seed)?;
    let mut moments = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let at = |why| format!("step {number}: {why}");
        run.step(step).map_err(at)?;
        moments.append(&mut run.disk.take_moments());
    }
    let mut dice = Dice(seed ^ 0x0063_7574);
    let chosen = chosen(moments, &mut dice);
    let mut done = 0;
    while done < CUTS {
        for moment in chosen.iter().take(CUTS - done) {
            let cut = moment.crashed(dice.below(u64::MAX));
            let at = |why| format!("the power fails at step {} of the disk: {why}", moment.step);
            found::check(&run.history, &cut, moment.mark, &mut dice).map_err(at)?;
            done += 1;
        }
    }
    Ok(done as u64)
}

/// Moments before syncs, and others where these are few, in any order.
fn chosen(moments: Vec<Moment>, dice: &mut Dice) -> Vec<Moment> {
    let (mut syncs, mut others): (Vec<_>, Vec<_>) =
        moments.into_iter().partition(|moment| moment.is_sync);
    let mut chosen = Vec::new();
    for from in [&mut syncs, &mut others] {
        while chosen.len() < CUTS && !from.is_empty() {
            let at = dice.below(from.len() as u64) as usize;
            chosen.push(from.swap_remove(at));
        }
    }
    chosen
}

/// The shortest part of a script that fails, and how.
fn told(seed: u64, steps: &[Step], fails: Check) -> String {
    let tries = Cell::new(0);
    let short = reduce(steps, |steps| {
        tries.set(tries.get() + 1);
        tries.get() <= TRIES && fails(seed, steps).is_err()
    });
    let why = fails(seed, &short).err().unwrap_or_default();
    format!(
        "{why}\nby a part of the script of seed {seed}:\n{}",
        listing(&short)
    )
}

/// Runs the script of a seed; returns how many crashes there were.
type Check = fn(u64, &[Step]) -> Result<u64, String>;

/// Checks scripts on all cores; returns how many scripts and crashes there were.
fn check_all(scripts: u64, check: Check) -> (u64, u64) {
    let first = number("HEARTH_SEED", 1);
    let scripts = number("HEARTH_ROUNDS", scripts);
    let (next, crashes) = (AtomicU64::new(first), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= first + scripts {
                return;
            }
            let steps = script(seed);
            match check(seed, &steps) {
                Ok(more) => crashes.fetch_add(more, Relaxed),
                Err(why) => {
                    // At once: a shorter script takes a while.
                    println!("{why}\nagain: HEARTH_SEED={seed} HEARTH_ROUNDS=1");
                    panic!("seed {seed}: {why}\n\n{}", told(seed, &steps, check))
                }
            };
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let crashes = crashes.into_inner();
    println!("{crashes} crashes of {scripts} scripts from seed {first} on");
    (scripts, crashes)
}

#[test]
fn after_any_cut_a_prefix_with_everything_that_was_synced_is_there() {
    let (scripts, cut) = check_all(SCRIPTS, cuts);
    assert_eq!(cut, scripts * CUTS as u64);
}

#[test]
fn a_disk_that_fails_at_any_call_loses_nothing_that_was_synced() {
    let (scripts, failed) = check_all(FAULTY, faults::faults);
    assert_eq!(failed, scripts * faults::EACH);
}
