//! How schedules are chosen, and which outcomes a race must have shown.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use hearth::{Credentials, Process, Volume};
use hearth_sync::primitive::thread::{self, JoinHandle};
use shuttle::{Config, Runner};

use crate::bursts::Bursts;

/// What a task may use; shuttle's default is less than a whole operation needs.
const STACK_BYTES: usize = 512 * 1024;

/// Runs `race` under so many schedules and checks that each of `expected` was the answer of at
/// least one run: a race whose outcomes never happen tests nothing.
pub fn explore(
    schedules: usize,
    expected: &[&'static str],
    race: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    // std's own types: the outcomes outlive a schedule and are no part of it.
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let record = Arc::clone(&seen);
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(Bursts::new(schedules), config).run(move || {
        let outcome = race();
        record.lock().unwrap().insert(outcome);
    });
    let expected: BTreeSet<_> = expected.iter().copied().collect();
    assert_eq!(
        *seen.lock().unwrap(),
        expected,
        "outcomes seen, outcomes expected"
    );
}

/// Runs `work` in a task of its own, as a process of its own.
pub fn task<R: Send + 'static>(
    volume: &Volume,
    work: impl FnOnce(&Volume, &Process) -> R + Send + 'static,
) -> JoinHandle<R> {
    let volume = volume.clone();
    thread::spawn(move || work(&volume, &volume.process(Credentials::root())))
}
