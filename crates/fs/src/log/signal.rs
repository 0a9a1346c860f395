//! What wakes the threads that commit and write back by themselves.

use hearth_sync::primitive::{Condvar, Mutex};
use std::time::Duration;

/// What the threads that commit and write back by themselves wait for. It outlives the volume as
/// long as these threads, which therefore hold no volume while they wait.
#[derive(Default)]
pub(crate) struct CommitSignal {
    state: Mutex<Signalled>,
    /// A commit is wanted, or the volume has ended.
    changed: Condvar,
    /// An early write-back is wanted, or the volume has ended.
    early: Condvar,
}

#[derive(Default)]
struct Signalled {
    /// Whether a commit of everything is to come soon.
    is_wanted: bool,
    /// Whether an early write-back is to come.
    is_early: bool,
    /// Whether the volume has ended.
    is_closed: bool,
}

impl CommitSignal {
    /// Waits until `interval` is over or a commit is wanted; false if the volume has ended.
    pub fn wait(&self, interval: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_closed && !state.is_wanted {
            self.changed.wait_for(&mut state, interval);
        }
        state.is_wanted = false;
        !state.is_closed
    }

    /// Asks for a commit of everything soon.
    pub fn want(&self) {
        if !std::mem::replace(&mut self.state.lock().is_wanted, true) {
            self.changed.notify_all();
        }
    }

    /// Waits until an early write-back is wanted; false if the volume has ended.
    pub fn wait_early(&self) -> bool {
        let mut state = self.state.lock();
        while !state.is_closed && !state.is_early {
            self.early.wait(&mut state);
        }
        state.is_early = false;
        !state.is_closed
    }

    /// Asks for an early write-back.
    pub fn want_early(&self) {
        if !std::mem::replace(&mut self.state.lock().is_early, true) {
            self.early.notify_all();
        }
    }

    /// Whether a commit is wanted, or the volume has ended.
    pub fn is_wanted(&self) -> bool {
        let state = self.state.lock();
        state.is_wanted || state.is_closed
    }

    /// The volume ends. False if it has ended already.
    pub fn close(&self) -> bool {
        let is_first = !std::mem::replace(&mut self.state.lock().is_closed, true);
        self.changed.notify_all();
        self.early.notify_all();
        is_first
    }
}
