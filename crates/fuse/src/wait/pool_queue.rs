//! The work of a pool of threads that no tenant takes all of.
//!
//! Work may block for as long as its tenant likes: a lock for its holder, a search for a rate
//! limit. So besides the threads that serve all tenants by weight a pool has some to *spare*. When
//! the others are busy, these serve who has less work begun than spare threads are left.

use hearth::sched::{FairQueue, Handle, Tenant};
use std::collections::HashMap;

/// One in so many threads is to spare.
const SPARE: usize = 8;

/// The work of a pool. The pool's lock protects it.
pub(super) struct PoolQueue<T> {
    ready: FairQueue<T>,
    /// Work of each tenant that has begun; a tenant without any has no entry. Work that may not
    /// queue begins when it comes.
    begun: HashMap<Tenant, usize>,
    /// Work that has begun, of all.
    total: usize,
    /// Threads for everybody.
    each: usize,
    /// Whether work may wait for a thread.
    pub queues: bool,
}

impl<T> PoolQueue<T> {
    /// A queue for this number of threads, and those to spare.
    pub fn new(each: usize, queues: bool) -> PoolQueue<T> {
        PoolQueue {
            ready: FairQueue::default(),
            begun: HashMap::new(),
            total: 0,
            each,
            queues,
        }
    }

    /// Most threads that have work at the same time.
    pub fn most(&self) -> usize {
        self.each + self.each.div_ceil(SPARE)
    }

    /// Whether work of `tenant` may begin now.
    pub fn admits(&self, tenant: Tenant) -> bool {
        self.total < self.each || work_of(&self.begun, tenant) < self.left()
    }

    /// Adds work; it is given back if it may not wait and not begin.
    pub fn push(&mut self, sched: &Handle, tenant: Tenant, work: T) -> Result<(), T> {
        if !self.queues {
            if !self.admits(tenant) {
                return Err(work);
            }
            self.begin(tenant);
        }
        self.ready.push(sched, tenant, work);
        Ok(())
    }

    /// Begins work of `tenant` that never was in the queue, unless some waits there or it may not
    /// begin. It counts until [`PoolQueue::finish`].
    pub fn begin_here(&mut self, tenant: Tenant) -> bool {
        let begins = self.ready.is_empty() && self.admits(tenant);
        if begins {
            self.begin(tenant);
        }
        begins
    }

    /// Takes the work that is next, if any may begin. It counts until [`PoolQueue::finish`].
    pub fn pop(&mut self, sched: &Handle) -> Option<T> {
        if !self.queues {
            return self.ready.pop(sched).map(|(_, work)| work);
        }
        let (tenant, work) = match self.total < self.each {
            true => self.ready.pop(sched)?,
            false => {
                let (left, begun) = (self.left(), &self.begun);
                let has_less = |tenant| work_of(begun, tenant) < left;
                self.ready.pop_if(sched, has_less)?
            }
        };
        self.begin(tenant);
        Some(work)
    }

    /// Whether work that waits may begin, and none of `threads` is about to take it, `idle` of
    /// which sleep. What ends may let two tenants begin something: the thread that has done it
    /// takes one piece, and its own tenant has one piece less.
    pub fn lacks_thread(&self, threads: usize, idle: usize) -> bool {
        self.queues
            && threads.saturating_sub(idle) <= self.total
            && self.ready.has_one(|tenant| self.admits(tenant))
    }

    /// Ends work that was taken and used `ns` of processor time.
    pub fn finish(&mut self, sched: &Handle, tenant: Tenant, ns: u64) {
        self.ready.finish(sched, tenant, ns);
        self.end(tenant);
    }

    /// Takes work that no thread will run.
    pub fn take_back(&mut self, sched: &Handle) -> Option<T> {
        let (tenant, work) = self.ready.pop(sched)?;
        if !self.queues {
            self.end(tenant);
        }
        Some(work)
    }

    /// How much work has no thread.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Threads that have no work, if all exist.
    fn left(&self) -> usize {
        self.most().saturating_sub(self.total)
    }

    fn begin(&mut self, tenant: Tenant) {
        *self.begun.entry(tenant).or_default() += 1;
        self.total += 1;
    }

    fn end(&mut self, tenant: Tenant) {
        self.total -= 1;
        if let Some(own) = self.begun.get_mut(&tenant) {
            *own -= 1;
            if *own == 0 {
                self.begun.remove(&tenant);
            }
        }
    }
}

fn work_of(begun: &HashMap<Tenant, usize>, tenant: Tenant) -> usize {
    begun.get(&tenant).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::sched::Scheduler;

    #[test]
    fn what_is_to_spare_is_for_tenants_that_have_less_than_is_left_of_it() {
        let sched = Scheduler::builder().start().unwrap();
        let [one, two, three] = [1, 2, 3].map(|id| sched.tenant(id));
        for queues in [true, false] {
            // Four are to spare.
            let mut queue = PoolQueue::new(32, queues);
            let mut refused = 0;
            for (tenant, pieces) in [(one, 40), (two, 4), (three, 4)] {
                for _ in 0..pieces {
                    refused += usize::from(queue.push(&sched, tenant, tenant).is_err());
                    if tenant == one {
                        queue.pop(&sched);
                    }
                }
            }
            while queue.pop(&sched).is_some() {}
            let own = |queue: &PoolQueue<Tenant>| [one, two, three].map(|of| queue.begun[&of]);
            assert_eq!((own(&queue), queue.total), ([32, 2, 1], 35));
            assert_eq!(queue.len() + refused, 48 - 35);
            queue.finish(&sched, two, 0);
            assert!(queue.admits(two) && queue.admits(three) && !queue.admits(one));
        }
    }
}
