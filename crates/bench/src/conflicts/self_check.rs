//! Does the runner see what it is there to see? Stand-ins whose verdict is known.

use super::cores::Cores;
use super::window::conflicts;
use hearth::{Clock, Credentials, Process, SystemClock, Time, Volume};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
#[repr(align(64))]
struct OwnLine(AtomicU64);

#[derive(Default)]
#[repr(align(64))]
struct Neighbours([AtomicU64; 2]);

/// A clock that counts its readers: the planted fault.
struct CountingClock(AtomicU64);

impl Clock for CountingClock {
    fn now(&self) -> Time {
        // Relaxed: a count by itself.
        self.0.fetch_add(1, Ordering::Relaxed);
        SystemClock.now()
    }
}

/// Fails if two creates in two directories of a volume with one counter that all changes share
/// pass for free, or if the same volume without it does not.
fn check_planted(cores: &Cores) -> Result<(), String> {
    for is_planted in [false, true] {
        let builder = Volume::builder();
        let builder = match is_planted {
            true => builder.clock(CountingClock(AtomicU64::new(0))),
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
