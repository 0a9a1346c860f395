//! Blocking without stopping the core.

use super::employ;
use crate::shared::{give_away, take_back};

/// Calls `f`, which may block: meanwhile another thread of the scheduler drives this thread's
/// station. Outside of a task, and when there are too many threads already, simply calls `f`.
///
/// The task goes on after it without a station until it waits or ends.
pub fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    if let Some(seat) = give_away() {
        let shared = &seat.shared;
        // The time of the task up to here is its own; from here on the station's next counts.
        shared.fleet.give_up(seat.station, shared.clock.now().ns());
        if employ(&seat).is_err() {
            take_back(seat);
        }
    }
    f()
}
