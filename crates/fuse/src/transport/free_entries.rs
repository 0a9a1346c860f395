//! How many entries of a ring are free, by the CPU whose requests they are for.
//!
//! A request waits in the kernel while its CPU has no free entry. That must not last: it may be the
//! unlock that the requests in all other entries wait for.

/// Entries that a thread's own CPU has free, at least.
pub(super) const DEPTH: usize = 8;

/// The entries of one ring that are not away.
pub(super) struct FreeEntries {
    /// The thread's own CPU first.
    queues: Vec<FreeOfQueue>,
    /// Entries whose requests a worker or a task has.
    away: usize,
}

struct FreeOfQueue {
    queue: u16,
    free: usize,
    least: usize,
}

impl FreeEntries {
    /// No entries yet, for the requests of these CPUs, the thread's own first.
    pub fn new(cpus: &[usize]) -> FreeEntries {
        let queues = cpus.iter().enumerate().map(|(place, &cpu)| FreeOfQueue {
            queue: cpu as u16,
            free: 0,
            // A CPU that is not there sends nothing until it comes: one entry will do.
            least: if place == 0 { DEPTH } else { 1 },
        });
        FreeEntries {
            queues: queues.collect(),
            away: 0,
        }
    }

    /// Each CPU that has too few, and how many it lacks.
    pub fn lacking(&self) -> Vec<(u16, usize)> {
        let lacks = |of: &FreeOfQueue| (of.queue, of.least.saturating_sub(of.free));
        let all = self.queues.iter().map(lacks);
        all.filter(|&(_, lacks)| lacks > 0).collect()
    }

    /// How many are away, of all CPUs.
    pub fn away(&self) -> usize {
        self.away
    }

    /// How many the thread's own CPU has.
    pub fn own(&self) -> usize {
        self.queues.first().map_or(0, |of| of.free)
    }

    /// There is one more for CPU `queue`.
    pub fn added(&mut self, queue: u16) {
        if let Some(of) = self.of(queue) {
            of.free += 1;
        }
    }

    /// One of CPU `queue` is away. Returns whether it has too few now.
    pub fn goes(&mut self, queue: u16) -> bool {
        self.away += 1;
        self.of(queue).is_some_and(|of| {
            of.free -= 1;
            of.free < of.least
        })
    }

    /// One of CPU `queue` came back.
    pub fn returns(&mut self, queue: u16) {
        self.away -= 1;
        self.added(queue);
    }

    fn of(&mut self, queue: u16) -> Option<&mut FreeOfQueue> {
        // The first as a rule. Entries are added for these CPUs only.
        self.queues.iter_mut().find(|of| of.queue == queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(cpus: &[usize]) -> FreeEntries {
        let mut entries = FreeEntries::new(cpus);
        for (queue, lacks) in entries.lacking() {
            (0..lacks).for_each(|_| entries.added(queue));
        }
        assert_eq!((entries.lacking(), entries.own()), (vec![], DEPTH));
        entries
    }

    /// Regression: what was free was counted over all CPUs of a thread, so one of them could be
    /// left without any.
    #[test]
    fn a_cpu_whose_entry_goes_gets_another_while_others_have_many() {
        let mut entries = full(&[4, 6, 7]);
        // Entries that came back are more than are needed, all of the first CPU.
        for _ in 0..20 {
            assert!(entries.goes(4));
            entries.added(4);
        }
        (0..20).for_each(|_| entries.returns(4));
        assert_eq!((entries.own(), entries.away()), (DEPTH + 20, 0));
        assert!(!entries.goes(4));
        for lock in 0..3 {
            assert!(entries.goes(6), "{lock}: the unlock would find no entry");
            assert_eq!(entries.lacking(), [(6, 1)]);
            entries.added(6);
        }
        entries.returns(6);
        assert!(!entries.goes(6), "it had two");
        assert_eq!(entries.away(), 4);
        assert!(entries.lacking().is_empty());
    }

    #[test]
    fn the_own_cpu_has_eight_whatever_others_have() {
        let mut entries = full(&[0, 1]);
        for _ in 0..5 {
            assert!(entries.goes(1));
            entries.added(1);
        }
        (0..5).for_each(|_| entries.returns(1));
        assert!(entries.goes(0));
        assert_eq!(entries.lacking(), [(0, 1)]);
    }
}
