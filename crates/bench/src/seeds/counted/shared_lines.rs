//! Cache lines that two tasks share, seen by the recorder of the conflict runner.

use super::wanted_of_all;
use crate::activity::Activity;
use crate::conflicts::overlap::{Line, overlap};
use crate::conflicts::recorder::record;
use crate::measure::prepare;
use crate::pinned::{allowed_cores, pin};
use crate::seeds::options::SeedOptions;
use crate::target::{Library, Sharing, Target};
use std::sync::{Barrier, Mutex, PoisonError};

/// Rounds in which both tasks do it once.
const ROUNDS: usize = 64;

/// Prints one line of JSON for each wanted activity.
///
/// # Errors
/// The library refuses, or there is no second core.
pub fn run(args: &[String]) -> Result<(), String> {
    for one in wanted_of_all(&SeedOptions::parse(args)?) {
        let workload = one.activity.name();
        let value = of(&*one.activity).map_err(|what| format!("{workload}: {what}"))?;
        println!(
            "{}",
            serde_json::json!({"bench": one.family, "workload": workload, "value": value})
        );
    }
    Ok(())
}

/// Lines that one task writes and the other one touches, per operation: both do it once, one after
/// the other, each on its core, again and again.
///
/// # Errors
/// The library refuses, or there is no second core.
pub fn of(activity: &dyn Activity) -> Result<f64, String> {
    let library = Library::new(Sharing::Processes)?;
    prepare(&library, activity, 2)?;
    let cores = allowed_cores();
    let [first, second] = cores.get(..2).ok_or("there is no second core")? else {
        return Err("there is no second core".to_owned());
    };
    let turns = Barrier::new(2);
    let lines: [Mutex<Vec<Vec<Line>>>; 2] = Default::default();
    let side = |number: usize, core: usize| -> Result<(), String> {
        pin(core).map_err(|error| format!("core {core}: {error}"))?;
        let client = library.client();
        let mut task = activity.task(&*client, number, 2);
        let mut failure = task.as_ref().err().cloned();
        // Warm on both cores, alternating: then in turns, each seen by itself.
        for round in 0..2 * ROUNDS {
            for turn in 0..2 {
                turns.wait();
                if turn != number {
                    continue;
                }
                let Ok(task) = &mut task else { continue };
                let mut done = Ok(());
                if round < ROUNDS {
                    done = task.repeat(1);
                } else {
                    let seen = record(|| done = task.repeat(1));
                    let mut lines = lines[number].lock().unwrap_or_else(PoisonError::into_inner);
                    lines.push(seen);
                }
                failure = failure.or(done.err());
            }
        }
        turns.wait();
        failure.map_or(Ok(()), Err)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| side(1, *second));
        let own = scope.spawn(|| side(0, *first));
        let both = [own.join(), other.join()];
        both.into_iter()
            .try_for_each(|done| done.map_err(|_| "a task panicked".to_owned())?)
    })?;
    let [ours, theirs] = lines.map(|lines| lines.into_inner().unwrap_or_default());
    let shared: usize = ours
        .iter()
        .zip(&theirs)
        .map(|(ours, theirs)| overlap(ours, theirs).len())
        .sum();
    Ok(shared as f64 / ROUNDS as f64)
}
