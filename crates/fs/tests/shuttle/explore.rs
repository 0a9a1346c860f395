//! How schedules are chosen, and which outcomes a race must have shown.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Runs `race` under `schedules` random schedules and as many that put the preemptions at a few
/// chosen points, and checks that each of `expected` was the answer of at least one run: a race
/// whose outcomes never happen tests nothing.
pub fn explore(
    schedules: usize,
    expected: &[&'static str],
    race: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    const PREEMPTIONS: usize = 3;
    /// What a task may use; shuttle's default is less than a whole operation needs.
    const STACK_BYTES: usize = 512 * 1024;
    // std's own types: the outcomes outlive a schedule and are no part of it.
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let record = {
        let seen = Arc::clone(&seen);
        Arc::new(move || {
            let outcome = race();
            seen.lock().unwrap().insert(outcome);
        })
    };
    let again = Arc::clone(&record);
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    let random = RandomScheduler::new(schedules);
    Runner::new(random, config.clone()).run(move || record());
    let chosen = PctScheduler::new(PREEMPTIONS, schedules);
    Runner::new(chosen, config).run(move || again());
    let expected: BTreeSet<_> = expected.iter().copied().collect();
    assert_eq!(*seen.lock().unwrap(), expected, "outcomes seen, outcomes expected");
}
