//! Does the runner see what it is there to see? Stand-ins whose verdict is known.

use super::window::Cores;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
#[repr(align(64))]
struct OwnLine(AtomicU64);

#[derive(Default)]
#[repr(align(64))]
struct Neighbours([AtomicU64; 2]);

/// Fails if a stand-in gets the wrong verdict.
///
/// # Errors
/// Which one.
pub fn check(cores: &Cores) -> Result<(), String> {
    let map = Arc::new(Mutex::new(HashMap::from([(0, 0), (1, 1)])));
    let locked = cores.conflicts(|side| {
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
    let apart = cores.conflicts(|side| {
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
    let close = cores.conflicts(|side| {
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
