//! The self-check: stand-ins whose verdict is known.

use super::allow_list::Rule;
use super::cores::Cores;
use super::injected::{CountingClock, INJECTED};
use super::plan::{Extent, Plan};
use super::report;
use super::run_plan::verdicts;
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

/// Fails if two creates in two directories of a volume with an injected shared counter pass as
/// free, or if they do not without it.
fn check_injected(cores: &Cores) -> Result<(), String> {
    for is_injected in [false, true] {
        let builder = Volume::builder();
        let builder = match is_injected {
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
        if found.is_empty() == is_injected {
            return Err(match is_injected {
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

/// The cases of a small run: two calls that change a directory each, and read the clock.
const SMALL: &str = "mkdir(/d1/m) | mkdir(/d2/m)";

/// Where the report finds the injected fault: a volume reads its clock there.
const INJECTED_AT: &str = "VolumeClock.now";

/// Makes a small run as a whole, from the plan to the report, with and without the injected fault.
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
    let mut told = |is_injected| {
        // Relaxed: there is no worker.
        INJECTED.store(is_injected, Ordering::Relaxed);
        let verdicts = verdicts(workers, &plan, extent, rules, source);
        INJECTED.store(false, Ordering::Relaxed);
        let verdicts = verdicts?;
        let text = report::conflicts(&report::places(&verdicts, source), 1);
        Ok::<_, String>((share(&plan, &verdicts)?, text))
    };
    let (share, text) = told(false)?;
    if share < 1.0 {
        return Err(format!("a run of '{SMALL}' is not free: {text}"));
    }
    let (share, text) = told(true)?;
    match share > 0.0 || !text.contains(INJECTED_AT) {
        true => Err(format!(
            "of '{SMALL}' on volumes with one counter that all changes share, {share} are \
             reported free: {text}"
        )),
        false => Ok(()),
    }
}

/// Returns the share of free windows of one call in the report.
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
/// Names the stand-in.
pub fn check(cores: &Cores) -> Result<(), String> {
    check_injected(cores)?;
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
            // Relaxed: only the touched lines matter.
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
            // Relaxed: only the touched lines matter.
            pair.0[side].fetch_add(1, Ordering::Relaxed);
        }
    });
    match *close {
        [ref only] if only.is_false_sharing => Ok(()),
        _ => Err("two counters on one line are not seen as false sharing".into()),
    }
}
