//! Does the runner see what it is there to see? Stand-ins whose verdict is known.

use super::allow_list::Rule;
use super::cores::Cores;
use super::judge::judge;
use super::plan::{Extent, Plan};
use super::planted::{CountingClock, PLANTED};
use super::report;
use super::source::Source;
use super::verdict::Verdict;
use super::window::conflicts;
use hearth::{Credentials, Process, SystemClock, Volume};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
#[repr(align(64))]
struct OwnLine(AtomicU64);

#[derive(Default)]
#[repr(align(64))]
struct Neighbours([AtomicU64; 2]);

/// Fails if two creates in two directories of a volume with one counter that all changes share
/// pass for free, or if the same volume without it does not.
fn check_planted(cores: &Cores) -> Result<(), String> {
    for is_planted in [false, true] {
        let builder = Volume::builder();
        let builder = match is_planted {
            true => builder.clock(CountingClock::new(SystemClock)),
            false => builder,
        };
        let volume = builder
            .build()
            .map_err(|errno| format!("no volume: {errno:?}"))?;
        let process = Arc::new(volume.process(Credentials::root()));
        for side in [0, 1, 0, 1] {
            let process = process.clone();
            cores.run(side, move || make_and_remove(&process, side));
        }
        let found = conflicts(cores, |side| {
            let process = process.clone();
            move || {
                process
                    .mkdir(format!("/{side}/new"), 0o755)
                    .expect("a new name")
            }
        });
        if found.is_empty() == is_planted {
            return Err(match is_planted {
                true => "a volume with one counter that all changes share passes for free",
                false => "two creates in two directories are seen to share a line",
            }
            .into());
        }
    }
    Ok(())
}

fn make_and_remove(process: &Process, side: usize) {
    // The second round finds the directory there.
    let _ = process.mkdir(format!("/{side}"), 0o755);
    let path = format!("/{side}/old");
    process.mkdir(&path, 0o755).expect("a new name");
    process.rmdir(&path).expect("it is there");
}

/// Cases of the small run: two calls that change another directory each, and read the clock.
const SMALL: &str = "mkdir(/d1/m) | mkdir(/d2/m)";

/// Where the report finds the planted fault: a volume asks its clock there.
const PLANTED_AT: &str = "Core.now";

/// Makes a small run as a whole, from the plan to the report, with and without the planted fault.
/// The caller has no other thread.
///
/// # Errors
/// The run without it is not free, or the one with it passes or does not name it.
pub fn check_run(workers: usize, rules: &[Rule], source: &mut Source) -> Result<(), String> {
    let extent = Extent {
        long: usize::MAX,
        ..Extent::WHOLE
    };
    let plan = Plan::new(extent, Some(SMALL));
    let mut told = |is_planted| {
        // Relaxed: as its documentation says.
        PLANTED.store(is_planted, Ordering::Relaxed);
        let verdicts = judge(workers, &plan, extent, rules, source);
        PLANTED.store(false, Ordering::Relaxed);
        let verdicts = verdicts?;
        let text = report::conflicts(&verdicts, source, 1);
        Ok::<_, String>((share(&plan, &verdicts)?, text))
    };
    let (share, text) = told(false)?;
    if share < 1.0 {
        return Err(format!("a run of '{SMALL}' is not free: {text}"));
    }
    let (share, text) = told(true)?;
    match share > 0.0 || !text.contains(PLANTED_AT) {
        true => Err(format!(
            "of '{SMALL}' on volumes with one counter that all changes share, {share} are \
             reported free: {text}"
        )),
        false => Ok(()),
    }
}

/// The share of free windows of one call that the report tells.
fn share(plan: &Plan, verdicts: &[Verdict]) -> Result<f64, String> {
    let rows = report::rows(plan.tally, verdicts);
    let told = |metric| {
        let mut rows = rows.iter().filter(|row| row.workload == "window 1");
        let row = rows.find(|row| row.metric == metric);
        row.map_or(0.0, |row| row.value)
    };
    match told("cases") > 0.0 {
        true => Ok(told("conflict_free_share")),
        false => Err(format!("no case '{SMALL}' is planned")),
    }
}

/// Fails if a stand-in gets the wrong verdict.
///
/// # Errors
/// Which one.
pub fn check(cores: &Cores) -> Result<(), String> {
    check_planted(cores)?;
    let map = Arc::new(Mutex::new(HashMap::from([(0, 0), (1, 1)])));
    let locked = conflicts(cores, |side| {
        let map = map.clone();
        move || {
            map.lock()
                .expect("nobody panics with the lock")
                .insert(side, 7);
        }
    });
    if locked.iter().all(|conflict| conflict.is_false_sharing) {
        return Err("two inserts into one locked map are not seen to share a line".into());
    }

    let lines: Arc<[OwnLine; 2]> = Arc::default();
    let apart = conflicts(cores, |side| {
        let lines = lines.clone();
        move || {
            // Relaxed: the test is who touches which line.
            lines[side].0.fetch_add(1, Ordering::Relaxed);
        }
    });
    if !apart.is_empty() {
        return Err("two counters on two lines are seen to share one".into());
    }

    let pair: Arc<Neighbours> = Arc::default();
    let close = conflicts(cores, |side| {
        let pair = pair.clone();
        move || {
            // Relaxed: as above.
            pair.0[side].fetch_add(1, Ordering::Relaxed);
        }
    });
    match *close {
        [ref only] if only.is_false_sharing => Ok(()),
        _ => Err("two counters on one line are not seen as false sharing".into()),
    }
}
