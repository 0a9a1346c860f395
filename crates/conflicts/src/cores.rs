//! Two threads on two cores that take turns.

use hearth_bench::pinned::{allowed_cores, pin};
use hearth_sync::epoch;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;

/// Two threads on two cores.
pub struct Cores([CoreThread; 2]);

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
        match *allowed_cores() {
            [first, second, ..] => Ok(Cores([CoreThread::on(first), CoreThread::on(second)])),
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

type CoreJob = Box<dyn FnOnce() + Send>;

/// A thread on one core that does what it is told, one thing after the other.
struct CoreThread {
    jobs: Option<Sender<CoreJob>>,
    thread: Option<JoinHandle<()>>,
}

impl CoreThread {
    /// Starts a thread on `core`.
    fn on(core: usize) -> CoreThread {
        let (jobs, queue): (Sender<CoreJob>, Receiver<CoreJob>) = channel();
        let work = move || {
            pin(core).expect("the core is one that this process may use");
            queue.into_iter().for_each(|job| job());
        };
        CoreThread {
            jobs: Some(jobs),
            thread: Some(std::thread::spawn(work)),
        }
    }

    /// Runs `f` there and waits for its result.
    fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        self.start(f).recv().expect("the job ran to its end")
    }

    /// Runs `f` there; the result arrives in the channel.
    fn start<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        // Room for the one result: a channel without a bound makes room for many at once.
        let (done, result) = sync_channel(1);
        let job = Box::new(move || drop(done.send(f())));
        // A thread that panicked takes no job; the caller notices when no result comes.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
        result
    }
}

impl Drop for CoreThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
