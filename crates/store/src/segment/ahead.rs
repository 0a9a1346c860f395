//! A few results that one thread has made and another has not taken yet.

use hearth_sync::primitive::{Condvar, Mutex};
use std::collections::VecDeque;

/// Results that may wait: while one is being verified the next is there and one more on its way.
const ROOM: usize = 2;

/// From one thread that makes results to one that takes them.
#[derive(Debug)]
pub struct Ahead<T> {
    state: Mutex<Queue<T>>,
    changed: Condvar,
}

/// Protected by [`Ahead::state`].
#[derive(Debug)]
struct Queue<T> {
    made: VecDeque<T>,
    ended: bool,
}

/// Ends an [`Ahead`] when it is dropped, so that neither side waits for one that is gone.
#[derive(Debug)]
pub struct End<'a, T>(pub &'a Ahead<T>);

impl<T> Ahead<T> {
    /// Without results.
    pub fn new() -> Ahead<T> {
        Ahead {
            state: Mutex::new(Queue {
                made: VecDeque::with_capacity(ROOM),
                ended: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Adds a result once there is room; false where nobody takes it any more.
    pub fn put(&self, result: T) -> bool {
        let mut state = self.state.lock();
        while state.made.len() >= ROOM && !state.ended {
            self.changed.wait(&mut state);
        }
        if state.ended {
            return false;
        }
        state.made.push_back(result);
        self.changed.notify_all();
        true
    }

    /// The next result; `None` where there is none and none will come.
    pub fn take(&self) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(result) = state.made.pop_front() {
                self.changed.notify_all();
                return Some(result);
            }
            if state.ended {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

impl<T> Drop for End<'_, T> {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.changed.notify_all();
    }
}
