//! Two threads on two cores that take turns.

use hearth_bench::pinned::Worker;
use hearth_sync::epoch;

/// Two threads on two cores.
pub struct Cores([Worker; 2]);

/// An observer of a side that works alone.
pub trait Watch: Copy + Send + 'static {
    /// What it has seen.
    type Seen: Send + 'static;

    /// Lets a side work and observes it, on the side's thread.
    fn window(self, side: usize, work: &mut dyn FnMut()) -> Self::Seen;
}

impl Cores {
    /// Starts them.
    ///
    /// # Errors
    /// This process may use one core only.
    pub fn start() -> Result<Cores, String> {
        match *hearth_bench::pinned::allowed_cores() {
            [first, second, ..] => Ok(Cores([Worker::on(first), Worker::on(second)])),
            _ => Err(
                "the conflict runner needs two cores, and this process may use one; allow it \
                      another with taskset"
                    .into(),
            ),
        }
    }

    /// Runs `f` on the core of a side.
    pub fn run<T: Send + 'static>(&self, side: usize, f: impl FnOnce() -> T + Send + 'static) -> T {
        self.0[side].run(f)
    }
}

/// Flushes what this thread has retired, and frees most of what is due.
pub fn empty_epoch() {
    for _ in 0..8 {
        epoch::pin().flush();
    }
}
