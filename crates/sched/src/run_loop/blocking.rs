//! Blocking without stopping the core.

use super::spawn_worker;
use crate::shared::{hand_off, take_back};

/// Calls `f`, which may block. Meanwhile another thread of the scheduler runs this thread's run
/// queue. Outside a task, and when the pool has no thread left, it only calls `f`.
///
/// Afterwards the task continues without a run queue until it waits or ends.
pub fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    if let Some(queue_ref) = hand_off() {
        let shared = &queue_ref.shared;
        // Time up to here is the task's; time from here on belongs to the next task of the run
        // queue.
        shared
            .runtime
            .give_up(queue_ref.index, shared.clock.now().ns());
        if spawn_worker(&queue_ref).is_err() {
            take_back(queue_ref);
        }
    }
    f()
}
