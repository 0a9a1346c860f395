//! One pinned thread with one ring per CPU.
//!
//! Life of an entry: registered, then in turns *available* (the kernel's), *completed* (this thread
//! replies and commits, which makes it available again) or *away* (a worker or a task will reply).
//! Entries that are away are replaced by new ones, so that the requests behind them, among them the
//! unlock that they wait for, always find an entry. A task takes the entry's memory along and
//! builds its reply there; the reply comes back through the completion queue, since only this
//! thread may submit. When the mount goes, every entry completes with an error once; the thread
//! ends with the last.

use super::completions::{Completion, CompletionQueue};
use super::device::Device;
use super::free_entries::FreeEntries;
use super::kick::Kicks;
use super::region::Region;
use super::ring::{COMPLETIONS, Ring};
use super::ring_command::{commit, register};
use super::ring_request::{COPIED, RingRequest, handle};
use crate::placement::cpu;
use crate::wait::outcome::{Attempt, Outcome, WaitFor};
use crate::wait::request_queue::RequestQueue;
use crate::wait::service::{Handled, Service};
use crate::wait::session_shared::SessionShared;
use crate::wire::Opcode;
use hearth::Errno;
use hearth_sync::primitive::Arc;
use io_uring::types::Fd;
use io_uring::{opcode, squeue::Entry128};
use std::io;
use std::time::{Duration, Instant};

/// Marks the completion of the poll that waits for the completions.
const WAKE: u64 = u64::MAX;
/// Tasks that run between two looks at the ring.
const TURNS: usize = 2;

/// What a queue thread is made of.
pub(crate) struct QueueParts<S> {
    pub device: Arc<Device>,
    pub shared: Arc<SessionShared<S>>,
    /// Bytes of payload that the kernel wants in each entry.
    pub payload: usize,
}

impl<S> Clone for QueueParts<S> {
    fn clone(&self) -> QueueParts<S> {
        QueueParts {
            device: Arc::clone(&self.device),
            shared: Arc::clone(&self.shared),
            payload: self.payload,
        }
    }
}

/// A ring that was set up by the thread that will use it, before the connection is told of rings.
pub(crate) struct PreparedQueue {
    ring: Ring,
    completions: Arc<CompletionQueue>,
    /// CPUs whose requests come here: the thread's own first.
    cpus: Vec<usize>,
}

impl PreparedQueue {
    /// Pins the calling thread and makes its ring.
    ///
    /// # Errors
    /// Errors of io_uring: `ENOSYS`, `EPERM` where it is forbidden, `ENOMEM`.
    pub fn new(cpus: Vec<usize>) -> io::Result<PreparedQueue> {
        cpu::pin(cpus[0]);
        Ok(PreparedQueue {
            ring: Ring::new()?,
            completions: Arc::new(CompletionQueue::new()?),
            cpus,
        })
    }

    /// Registers the entries.
    ///
    /// # Errors
    /// What the kernel refused: a submission, or an entry.
    pub fn register<S: Service>(self, parts: QueueParts<S>) -> io::Result<Queue<S>> {
        let PreparedQueue {
            ring,
            completions,
            cpus,
        } = self;
        // The ring's own reference: commands of several CPUs would otherwise count theirs on one
        // cache line.
        ring.register_file(parts.device.raw())?;
        let bell = Arc::clone(&completions);
        let unpark = Box::new(move || bell.event.set());
        let requests = RequestQueue::new(&parts.shared, Some(ring.raw()), unpark);
        let requests = requests.ok_or_else(|| io::Error::other("the volume has no seat left"))?;
        completions.own();
        let mut queue = Queue {
            ring,
            completions,
            parts,
            requests,
            entries: Vec::new(),
            live: 0,
            free: FreeEntries::new(&cpus),
            kicks: Kicks::default(),
            replied: None,
            completed: Vec::with_capacity(COMPLETIONS as usize),
        };
        for (cpu, lacks) in queue.free.lacking() {
            for _ in 0..lacks {
                queue.add_entry(cpu)?;
            }
        }
        queue.listen()?;
        queue.ring.submit()?;
        // What is refused completes at once. The kernel has no request here yet, or it stays with
        // the rest for `run`.
        queue.collect();
        match queue.completed.iter().find(|(_, result)| *result < 0) {
            Some((_, result)) => Err(io::Error::from_raw_os_error(-result)),
            None => Ok(queue),
        }
    }
}

/// A queue at work.
pub(crate) struct Queue<S> {
    // Before the ring, whose descriptor it has.
    requests: RequestQueue<S>,
    // So that it is gone before the memory that its entries point to.
    ring: Ring,
    entries: Vec<RingEntry>,
    /// Entries that did not complete with an error yet.
    live: usize,
    /// How many entries are not with a worker or a task.
    free: FreeEntries,
    /// Requests that the kernel may hold back though entries are free.
    kicks: Kicks,
    /// When the last reply was ready, if nothing was done since.
    replied: Option<Instant>,
    /// Completions that were seen and not worked on yet: user data and result.
    completed: Vec<(u64, i32)>,
    completions: Arc<CompletionQueue>,
    parts: QueueParts<S>,
}

struct RingEntry {
    /// `None` while a task has it.
    region: Option<Region>,
    queue: u16,
}

impl<S: Service> Queue<S> {
    /// Serves requests until the mount is gone.
    ///
    /// # Errors
    /// The ring cannot be used any more: requests of its CPU wait until the connection is aborted.
    pub fn run(mut self) -> io::Result<()> {
        let mut scratch = vec![0; COPIED];
        while self.live > 0 {
            if self.completed.is_empty()
                && let Err(error) = self.fetch()
            {
                return self.give_up(error);
            }
            let mut completed = std::mem::take(&mut self.completed);
            // Requests that wait at the same time are put in order, if they are of several tenants.
            let order =
                self.requests.has_rivals() && (completed.len() > 1 || self.requests.has_work());
            for (data, result) in completed.drain(..) {
                let next = match data {
                    WAKE => self.listen_again(),
                    _ if result < 0 => self.lost(result),
                    index => self.take(index as usize, order, &mut scratch),
                };
                if let Err(error) = next {
                    return self.give_up(error);
                }
            }
            // The capacity is kept for the next round.
            self.completed = completed;
            if self.requests.is_busy() {
                self.requests.run(TURNS);
                self.replied = None;
            }
            if let Err(error) = self.deliver() {
                return self.give_up(error);
            }
        }
        Ok(())
    }

    /// Submits, and waits for completions where there is nothing else to do.
    fn fetch(&mut self) -> io::Result<()> {
        let replied = self.replied.take();
        if !self.requests.has_work() && self.kicks.are_wanted(self.free.away()) {
            // What a commit fetched is there when it was submitted.
            self.ring.submit()?;
            self.collect();
            if !self.completed.is_empty() {
                return Ok(());
            }
            self.kicks.send(&self.parts.device);
        }
        let (ring, requests) = (&mut self.ring, &mut self.requests);
        if !requests.is_busy() {
            if let Some(replied) = replied
                && requests.is_pressed()
            {
                // The client runs before this call returns, and asks for more: then there is no
                // going to sleep and being woken. Once it did not, it is waited for again, so that
                // is at most once in a while, however long it is.
                requests.give_way(replied, Duration::MAX, || ring.submit())?;
            }
            ring.wait()?;
        } else if requests.has_work() {
            ring.wait_for(Duration::ZERO)?;
        } else {
            let mut done = Ok(());
            requests.wait(|limit| {
                done = match limit {
                    Some(limit) => ring.wait_for(limit),
                    None => ring.wait(),
                }
            });
            done?;
        }
        self.collect();
        Ok(())
    }

    fn collect(&mut self) {
        self.completed.extend(self.ring.completions());
        let came = self.completed.iter().filter(|(data, _)| *data != WAKE);
        let came = came.count();
        // As a rule all came from the thread's own CPU.
        let free = self.free.own().saturating_sub(came);
        self.kicks.collected(came, free);
    }

    /// The kernel gave an entry back for good. At the end of the mount it does so with all of them;
    /// for any other reason the queue cannot go on.
    fn lost(&mut self, result: i32) -> io::Result<()> {
        self.live -= 1;
        match -result {
            libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED | libc::ENODEV | libc::ENOENT => {
                Ok(())
            }
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Handles a request at once, if it may go on and need not be put in `order`.
    fn take(&mut self, index: usize, order: bool, scratch: &mut [u8]) -> io::Result<()> {
        let Some(region) = &mut self.entries[index].region else {
            return Ok(());
        };
        let (header, args) = region.request();
        self.kicks.see(&header);
        if header.opcode == Opcode::NotifyReply as u32 {
            self.kicks.returned();
            return self.commit(index, Ok(0));
        }
        match self.requests.admit(&header, args) {
            Some(wait) => self.spawn(index, wait),
            None if order && RequestQueue::<S>::may_queue(&header) => {
                self.spawn(index, WaitFor::Turn)
            }
            None => self.serve(index, scratch),
        }
    }

    fn serve(&mut self, index: usize, scratch: &mut [u8]) -> io::Result<()> {
        let Some(region) = &mut self.entries[index].region else {
            return Ok(());
        };
        let service = &*self.parts.shared.service;
        let Handled { outcome, span } = handle(service, region, scratch, Attempt::FIRST);
        self.replied = None;
        match outcome {
            Outcome::Done(result) => {
                self.requests.served(&span);
                self.replied = Some(span.ended);
                self.commit(index, result)
            }
            Outcome::NoReply => {
                self.requests.served(&span);
                self.commit(index, Ok(0))
            }
            Outcome::Wait(WaitFor::Worker(offload)) => {
                self.requests.served(&span);
                let completions = Arc::clone(&self.completions);
                let finish =
                    Box::new(move |result| completions.push(Completion::Inline(index, result)));
                let tenant = service.tenant(&region.request().0);
                let workers = self.parts.shared.workers.of(tenant);
                workers.submit(offload, finish);
                self.replace(index)
            }
            Outcome::Wait(wait) => self.spawn(index, wait),
        }
    }

    /// Makes a task of the request in entry `index`, which waits for `first`.
    fn spawn(&mut self, index: usize, first: WaitFor) -> io::Result<()> {
        if let Some(region) = self.entries[index].region.take() {
            let request = RingRequest::new(index, region, &self.completions);
            self.requests.spawn(request, first);
        }
        self.replace(index)
    }

    /// An entry is away: there is another one in its place, if its CPU has too few left.
    fn replace(&mut self, index: usize) -> io::Result<()> {
        let queue = self.entries[index].queue;
        match self.free.goes(queue) {
            true => self.add_entry(queue),
            false => Ok(()),
        }
    }

    /// Commits what workers and tasks have replied.
    fn deliver(&mut self) -> io::Result<()> {
        for completion in self.completions.take() {
            self.replied = None;
            let (Completion::Task(index, ..) | Completion::Inline(index, _)) = &completion;
            self.free.returns(self.entries[*index].queue);
            match completion {
                Completion::Task(index, region, result) => {
                    self.entries[index].region = Some(region);
                    self.commit(index, result)?;
                }
                Completion::Inline(index, result) => {
                    let result = result.map(|reply| {
                        let body = reply.bytes();
                        if let Some(region) = &mut self.entries[index].region {
                            region.split().1[..body.len()].copy_from_slice(body);
                        }
                        body.len()
                    });
                    self.commit(index, result)?;
                }
            }
        }
        Ok(())
    }

    /// Replies to the request in entry `index` and makes the entry available again.
    fn commit(&mut self, index: usize, result: Result<usize, Errno>) -> io::Result<()> {
        let entry = &mut self.entries[index];
        let Some(region) = &mut entry.region else {
            return Ok(());
        };
        let sqe = commit(region, entry.queue, result);
        self.push(sqe.user_data(index as u64))
    }

    /// One more entry for the requests of CPU `queue`.
    fn add_entry(&mut self, queue: u16) -> io::Result<()> {
        let region = Region::map(self.parts.payload)?;
        let index = self.entries.len();
        let sqe = register(&region, queue);
        let region = Some(region);
        self.entries.push(RingEntry { region, queue });
        self.free.added(queue);
        self.live += 1;
        self.push(sqe.user_data(index as u64))
    }

    /// The completions's event was set.
    fn listen_again(&mut self) -> io::Result<()> {
        // Before the completions are taken: one that comes in between sets it again.
        self.completions.event.reset();
        self.listen()
    }

    /// Has the ring wait for the completions's event.
    fn listen(&mut self) -> io::Result<()> {
        let poll =
            opcode::PollAdd::new(Fd(self.completions.event.raw()), libc::POLLIN as u32).build();
        self.push(Entry128::from(poll).user_data(WAKE))
    }

    fn push(&mut self, sqe: Entry128) -> io::Result<()> {
        // SAFETY: what the entry points to (its region and the region's boxed ranges) is owned by
        // `self` and outlives the ring: entries are never removed and `ring` is dropped first.
        unsafe { self.ring.push(&sqe) }
    }

    /// The ring failed. The kernel may still write to the entries, so their memory is never reused.
    fn give_up(mut self, error: io::Error) -> io::Result<()> {
        std::mem::forget(std::mem::take(&mut self.entries));
        Err(error)
    }
}
