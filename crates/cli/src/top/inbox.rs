//! What the threads tell the one that draws.

use super::reading::Reading;
use crate::failure::Failure;
use hearth_sync::primitive::{Condvar, Mutex};
use ratatui::crossterm::event::Event;
use std::collections::VecDeque;
use std::time::Duration;

/// Something happened.
pub enum Input {
    /// A key, the mouse, another size.
    Terminal(Event),
    /// A look at the mount, or why there was none.
    Look(Box<Result<Reading, Failure>>),
    /// The lock profile was not switched.
    Complaint(Failure),
    /// The terminal has gone away.
    HungUp,
    /// A signal that ends the program.
    Signal(i32),
}

/// Inputs in their order.
#[derive(Default)]
pub struct Inbox {
    // Protected by its lock; `came` is told of every input.
    inputs: Mutex<VecDeque<Input>>,
    came: Condvar,
}

impl Inbox {
    /// Adds one.
    pub fn put(&self, input: Input) {
        self.inputs.lock().push_back(input);
        self.came.notify_one();
    }

    /// The next one, if it comes within `limit`.
    pub fn take(&self, limit: Duration) -> Option<Input> {
        let mut inputs = self.inputs.lock();
        if inputs.is_empty() {
            self.came.wait_for(&mut inputs, limit);
        }
        inputs.pop_front()
    }

    /// Whether none has come yet.
    pub fn is_empty(&self) -> bool {
        self.inputs.lock().is_empty()
    }
}
