//! What the thread that leads commits for others waits for.

use hearth_sync::primitive::{Condvar, Mutex};

/// It outlives the volume as long as that thread, which holds no volume while it waits.
#[derive(Default)]
pub(crate) struct LeaderSignal {
    state: Mutex<LeaderState>,
    changed: Condvar,
}

#[derive(Default)]
struct LeaderState {
    /// Whether the thread is there.
    serves: bool,
    /// Whether somebody waits for a commit.
    is_asked: bool,
    /// Whether the volume has ended.
    is_closed: bool,
}

impl LeaderSignal {
    /// The thread is there from now on.
    pub fn begin(&self) {
        self.state.lock().serves = true;
    }

    /// Whether the thread is there and the volume has not ended.
    pub fn serves(&self) -> bool {
        let state = self.state.lock();
        state.serves && !state.is_closed
    }

    /// Somebody waits for a commit. False if the thread has ended.
    #[must_use]
    pub fn ask(&self) -> bool {
        let mut state = self.state.lock();
        state.is_asked = true;
        let serves = state.serves;
        drop(state);
        self.changed.notify_one();
        serves
    }

    /// Waits until somebody waits for a commit; false if the volume has ended and nobody does. Then
    /// the thread ends.
    pub fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.is_asked && !state.is_closed {
            self.changed.wait(&mut state);
        }
        let is_asked = std::mem::take(&mut state.is_asked);
        state.serves &= is_asked;
        is_asked
    }

    /// The volume ends.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }
}
