//! A scheduler for races inside long operations.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// Lets a task run on for a while before another gets its turn.
///
/// An operation takes hundreds of steps. Choosing a task at random at every step makes all tasks
/// advance together and never lets one finish inside a gap of another, so each schedule has a
/// probability of its own to stay with the running task, from "hardly ever" to "nearly always".
///
/// The schedules are the same in every run unless `HEARTH_SHUTTLE_SEED` says otherwise.
#[derive(Debug)]
pub struct Bursts {
    left: usize,
    random: u64,
    /// A task is left in one of this many steps.
    burst: u64,
}

const BURSTS: [u64; 6] = [1, 2, 8, 32, 128, 512];

impl Bursts {
    pub fn new(schedules: usize) -> Bursts {
        let seed = std::env::var("HEARTH_SHUTTLE_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        Bursts {
            left: schedules,
            random: seed.unwrap_or(1),
            burst: 1,
        }
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Scheduler for Bursts {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.left = self.left.checked_sub(1)?;
        self.burst = BURSTS[self.left % BURSTS.len()];
        Some(Schedule::new(self.random()))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let ids = || runnable.iter().map(|task| task.id());
        // A task that waits for another in a loop must let it go on.
        if let Some(current) = current
            && !is_yielding
            && ids().any(|id| id == current)
            && !self.random().is_multiple_of(self.burst)
        {
            return Some(current);
        }
        let others = ids()
            .filter(|id| !is_yielding || Some(*id) != current)
            .collect::<Vec<_>>();
        let among = if others.is_empty() {
            ids().collect()
        } else {
            others
        };
        Some(among[self.random() as usize % among.len()])
    }

    fn next_u64(&mut self) -> u64 {
        self.random()
    }
}
