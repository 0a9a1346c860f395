//! Power cuts under whole volumes: random scripts of the model on a store on a simulated disk. The
//! disk is kept as it was before each of its steps, so one run of a script gives hundreds of cuts.
//! Each loses any of what was not synced and is opened again.
//!
//! `HEARTH_SEED` begins with another script, `HEARTH_ROUNDS` is how many there are.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cuts/found.rs"]
mod found;
#[path = "cuts/history.rs"]
mod history;
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
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// Scripts of a run of the tests, and cuts of each at most.
const SCRIPTS: u64 = 100;
const CUTS: usize = 110;

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
    for moment in &chosen {
        let seed = dice.below(u64::MAX);
        let cut = moment.crashed(seed);
        let at = |why| format!("the power fails at step {} of the disk: {why}", moment.step);
        found::check(&run.history, &cut, moment.mark, &mut dice).map_err(at)?;
    }
    Ok(chosen.len() as u64)
}

/// All moments before a sync, and random others.
fn chosen(moments: Vec<Moment>, dice: &mut Dice) -> Vec<Moment> {
    let (mut chosen, mut others): (Vec<_>, Vec<_>) =
        moments.into_iter().partition(|moment| moment.is_sync);
    while chosen.len() < CUTS && !others.is_empty() {
        let at = dice.below(others.len() as u64) as usize;
        chosen.push(others.swap_remove(at));
    }
    chosen
}

/// The shortest part of a script that fails, and how.
fn told(seed: u64, why: &str, steps: &[Step]) -> String {
    let short = reduce(steps, |steps| cuts(seed, steps).is_err());
    let short_why = cuts(seed, &short).err().unwrap_or_default();
    format!(
        "{why}\n\nHEARTH_SEED={seed} HEARTH_ROUNDS=1 is this script again; shorter: {short_why}\n{}",
        listing(&short)
    )
}

#[test]
fn after_any_cut_a_prefix_with_everything_that_was_synced_is_there() {
    let first = number("HEARTH_SEED", 1);
    let end = first + number("HEARTH_ROUNDS", SCRIPTS);
    let (next, cut) = (AtomicU64::new(first), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end {
                return;
            }
            let steps = script(seed);
            match cuts(seed, &steps) {
                Ok(more) => drop(cut.fetch_add(more, Relaxed)),
                Err(why) => panic!("{}", told(seed, &why, &steps)),
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (cut, scripts) = (cut.into_inner(), end - first);
    println!("{cut} cuts of {scripts} scripts from seed {first} on");
    assert!(cut >= scripts * 50, "{cut} cuts of {scripts} scripts");
}
