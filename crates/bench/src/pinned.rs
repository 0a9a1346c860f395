//! Threads that stay on one core.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;

/// The cores that this process may use. Where hardware threads share a core, the first of each core
/// comes before the second of any: few tasks do not share one.
pub fn allowed_cores() -> Vec<usize> {
    spread(allowed(), siblings)
}

/// Orders `cores` by how many before it share a core with it, which `siblings` tells.
fn spread(cores: Vec<usize>, siblings: impl Fn(usize) -> String) -> Vec<usize> {
    let shared: Vec<String> = cores.iter().map(|&core| siblings(core)).collect();
    let before = |at: usize| {
        shared[..at]
            .iter()
            .filter(|one| **one == shared[at])
            .count()
    };
    let mut ranked: Vec<(usize, usize)> = (0..cores.len()).map(|at| (before(at), at)).collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, at)| cores[at]).collect()
}

/// The hardware threads of the core of `core`, as the kernel writes them; itself where it does not.
fn siblings(core: usize) -> String {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let text = std::fs::read_to_string(path);
    text.map_or_else(|_| core.to_string(), |text| text.trim().to_owned())
}

fn allowed() -> Vec<usize> {
    // SAFETY: an all-zero set is a valid set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as is said.
    let got = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    let last = if got == 0 {
        libc::CPU_SETSIZE as usize
    } else {
        0
    };
    // SAFETY: the index is within the set.
    (0..last)
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect()
}

/// Keeps the calling thread, or process, on one core.
pub fn pin(core: usize) -> std::io::Result<()> {
    // SAFETY: an all-zero set is a valid set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: CPU_SET checks the index against the size of the set.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is as large as is said.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Keeps the calling thread on the first core, for counts: a counter splits when a second core uses
/// it.
pub fn pin_first() -> Result<(), String> {
    let core = *allowed_cores().first().ok_or("no core may be used")?;
    pin(core).map_err(|error| format!("core {core}: {error}"))
}

type PinnedJob = Box<dyn FnOnce() + Send>;

/// A thread on one core that does what it is told, one thing after the other.
pub struct Worker {
    jobs: Option<Sender<PinnedJob>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread on `core`.
    pub fn on(core: usize) -> Worker {
        let (jobs, queue): (Sender<PinnedJob>, Receiver<PinnedJob>) = channel();
        let work = move || {
            pin(core).expect("the core is one that this process may use");
            queue.into_iter().for_each(|job| job());
        };
        Worker {
            jobs: Some(jobs),
            thread: Some(std::thread::spawn(work)),
        }
    }

    /// Runs `f` there and waits for its result.
    pub fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        self.start(f).recv().expect("the job ran to its end")
    }

    /// Runs `f` there; the result arrives in the channel.
    pub fn start<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        // Room for the one result: a channel without a bound makes room for many at once.
        let (done, result) = sync_channel(1);
        let job = Box::new(move || drop(done.send(f())));
        // A thread that panicked takes no job; the caller notices when no result comes.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
        result
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_threads_of_one_core_come_last() {
        let neighbours = |core: usize| format!("{}-{}", core / 2 * 2, core / 2 * 2 + 1);
        assert_eq!(spread(vec![0, 1, 2, 3, 5], neighbours), [0, 2, 5, 1, 3]);
        let halves = |core: usize| format!("{},{}", core % 2, core % 2 + 2);
        assert_eq!(spread(vec![0, 1, 2, 3], halves), [0, 1, 2, 3]);
        // All that may be used are there, however the kernel numbers them.
        let mut cores = allowed_cores();
        cores.sort_unstable();
        assert_eq!(cores, allowed());
    }
}
