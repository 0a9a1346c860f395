//! Two threads on two cores, and what each touches in a window of its own.

use super::overlap::{Conflict, Line, overlap};
use super::recorder;
use crate::pinned::Worker;
use hearth_sync::epoch;

/// Two threads on two cores.
pub struct Cores([Worker; 2]);

impl Cores {
    /// Starts them.
    ///
    /// # Errors
    /// This process may use one core only.
    pub fn start() -> Result<Cores, String> {
        match *crate::pinned::allowed_cores() {
            [first, second, ..] => Ok(Cores([Worker::on(first), Worker::on(second)])),
            _ => Err("the conflict runner needs two cores, and this process may use one".into()),
        }
    }

    /// Runs `f` on a core.
    pub fn run<T: Send + 'static>(&self, side: usize, f: impl FnOnce() -> T + Send + 'static) -> T {
        self.0[side].run(f)
    }

    /// Lets each side do something alone, one after the other, and answers the lines that both
    /// touched and one wrote.
    pub fn conflicts<F>(&self, mut side: impl FnMut(usize) -> F) -> Vec<Conflict>
    where
        F: FnMut() + Send + 'static,
    {
        let [a, b] = [0, 1].map(|n| {
            let mut work = side(n);
            self.run(n, move || window(&mut work))
        });
        overlap(&a, &b)
    }
}

/// Records `work` from a known point of the epoch: nothing retired waits, and the next round of
/// collection is as far away as it can be, so that a short window never meets one by chance.
pub fn window(work: &mut impl FnMut()) -> Vec<Line> {
    empty_epoch();
    let mut least = usize::MAX;
    for _ in 0..1_000 {
        let lines = recorder::count(|| drop(epoch::pin()));
        // A pin that collects touches more.
        if lines > least {
            break;
        }
        least = least.min(lines);
    }
    // What `work` owns is dropped after the window.
    recorder::record(work)
}

/// Hands over what this thread has retired, and drops most of what is due.
pub fn empty_epoch() {
    for _ in 0..4 {
        epoch::pin().flush();
    }
}
