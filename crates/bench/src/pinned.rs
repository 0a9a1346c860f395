//! Threads that stay on one core.

use crate::failure::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|&core| set.is_set(core))
        .collect()
}

/// Keeps the calling thread, or process, on one core.
pub fn pin(core: usize) -> std::io::Result<()> {
    allow(&[core])
}

/// Keeps the calling thread on these cores, and what it starts.
fn allow(cores: &[usize]) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    Ok(sched_setaffinity(None, &set)?)
}

/// Keeps the calling thread on the first core, for counts: a counter splits when a second core uses
/// it.
pub fn pin_first() -> Result<(), String> {
    let core = *allowed_cores().first().ok_or("no core may be used")?;
    pin(core).context(format_args!("core {core}"))
}

/// The calling thread is on the first core, with all that it starts, until this is dropped.
pub struct OnFirstCore(Vec<usize>);

impl OnFirstCore {
    /// An error says which core may not be used.
    pub fn new() -> Result<OnFirstCore, String> {
        let before = OnFirstCore(allowed());
        pin_first().map(|()| before)
    }
}

impl Drop for OnFirstCore {
    fn drop(&mut self) {
        // They were allowed before.
        let _ = allow(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_on_one_core_may_use_all_again() {
        std::thread::spawn(|| {
            let (before, first) = (allowed(), allowed_cores()[0]);
            let on_one = OnFirstCore::new().unwrap();
            assert_eq!(allowed(), [first]);
            drop(on_one);
            assert_eq!(allowed(), before);
        })
        .join()
        .unwrap();
    }

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
