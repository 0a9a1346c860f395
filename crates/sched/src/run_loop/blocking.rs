//! Blocking without stopping the core.

use super::spawn_worker;
use crate::shared::{hand_off, take_back};

/// Calls `f`, which may block: meanwhile another thread of the scheduler drives this thread's
/// run queue. Outside of a task, and when there are too many threads already, simply calls `f`.
///
/// The task goes on after it without a run queue until it waits or ends.
pub fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    if let Some(queue_ref) = hand_off() {
        let shared = &queue_ref.shared;
        // The time of the task up to here is its own; from here on the run queue's next counts.
        shared
            .runtime
            .give_up(queue_ref.index, shared.clock.now().ns());
        if spawn_worker(&queue_ref).is_err() {
            take_back(queue_ref);
        }
    }
    f()
}
