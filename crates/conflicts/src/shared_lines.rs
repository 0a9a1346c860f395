//! Cache lines that two tasks share, as the recorder sees them.

use crate::overlap::{Conflict, Line, overlap};
use crate::recorder::record;
use crate::source::Source;
use hearth_bench::failure::caught;
use hearth_bench::measure::prepare;
use hearth_bench::pinned::{allowed_cores, pin};
use hearth_bench::seeds::counted::wanted_of_args;
use hearth_bench::target::{Library, Sharing, Target};
use hearth_bench::workload::Workload;
use std::collections::HashMap;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

/// Rounds in which both tasks do it once. The garbage collector works at every 128th pin.
const ROUNDS: usize = 512;
/// Rounds before those, which make what is made on first use.
const WARM: usize = 64;

/// Prints one line of JSON for each wanted workload.
///
/// # Errors
/// The library refuses, or there is no second core.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut source = Source::of_this_program()?;
    for one in wanted_of_args(args)? {
        let workload = one.workload.name();
        let shared = of(&*one.workload).map_err(|what| format!("{workload}: {what}"))?;
        println!(
            "{}",
            serde_json::json!({
                "bench": one.family,
                "workload": workload,
                "value": shared.len() as f64 / ROUNDS as f64,
                "where": most_frequent(&shared, &mut source),
            })
        );
    }
    Ok(())
}

/// Returns the place in the source at which most of them are shared.
fn most_frequent(shared: &[Conflict], source: &mut Source) -> Option<String> {
    let mut places: HashMap<String, usize> = HashMap::new();
    for conflict in shared {
        let mut side = |n: usize| {
            let does = if conflict.writes[n] {
                "writes"
            } else {
                "reads"
            };
            format!("{does} {}", source.name(&conflict.sides[n]))
        };
        let mut both = [side(0), side(1)];
        both.sort();
        *places.entry(both.join("; ")).or_default() += 1;
    }
    let most = places
        .into_iter()
        .max_by_key(|(place, count)| (*count, place.clone()));
    most.map(|(place, _)| place)
}

/// Returns the lines that one task writes and the other one touches in [`ROUNDS`] rounds. Both
/// tasks do it once a round, one after the other, each on its core.
///
/// # Errors
/// The library refuses, or there is no second core.
pub fn of(measured: &dyn Workload) -> Result<Vec<Conflict>, String> {
    let library = Library::new(Sharing::Processes)?;
    prepare(&library, measured, 2)?;
    let cores = allowed_cores();
    let [first, second] = cores.get(..2).ok_or("there is no second core")? else {
        return Err("there is no second core".to_owned());
    };
    let turns = Barrier::new(2);
    let seen: [Mutex<Vec<Line>>; 2] = Default::default();
    let shared = Mutex::new(Vec::new());
    let side = |number: usize, core: usize| -> Result<(), String> {
        // Whatever fails, each gets to where it meets the other.
        let pinned = pin(core).map_err(|error| format!("core {core}: {error}"));
        let mut task = caught(|| measured.task(library.client(), (number, 2)));
        let mut failure = pinned.err().or(task.as_ref().err().cloned());
        for round in 0..WARM + ROUNDS {
            for turn in 0..2 {
                turns.wait();
                let Ok(task) = &mut task else { continue };
                if turn == number {
                    let mut done = Ok(());
                    *locked(&seen[number]) = record(|| done = caught(|| task.once()));
                    failure = failure.or(done.err());
                }
            }
            turns.wait();
            if number == 0 && round >= WARM {
                let found = overlap(&locked(&seen[0]), &locked(&seen[1]));
                locked(&shared).extend(found);
            }
        }
        failure.map_or(Ok(()), Err)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| side(1, *second));
        let own = scope.spawn(|| side(0, *first));
        let both = [own.join(), other.join()];
        both.into_iter()
            .try_for_each(|done| done.map_err(|_| "a task panicked".to_owned())?)
    })?;
    Ok(std::mem::take(&mut *locked(&shared)))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
