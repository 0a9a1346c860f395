//! One pinned thread with one ring per CPU.
//!
//! Life of an entry: registered, then in turns *available* (the kernel's), *completed* (this thread
//! answers and commits, which makes it available again) or *parked* (a worker or a task will
//! answer). Parked entries are replaced by fresh ones, so that the requests behind them, the unlock
//! that they wait for among them, always find an entry. A task takes the entry's memory along and
//! builds its answer there; the answer comes back through the mailbox, since only this thread may
//! submit. When the mount goes, every entry completes with an error once; the thread ends with the
//! last.

use super::completions::{Completion, CompletionQueue};
use super::device::Device;
use super::kick::Kicks;
use super::region::Region;
use super::ring::{COMPLETIONS, Ring};
use super::ring_request::{COPIED, RingRequest, answer, header};
use crate::placement::cpu;
use crate::wait::request_queue::{Admission, RequestQueue};
use crate::wait::request_task::Reason;
use crate::wait::service::{Absent, Answer, Attempt, Handled, Service};
use crate::wait::session_shared::SessionShared;
use crate::wire::reply::out_header;
use crate::wire::{CMD_COMMIT_AND_FETCH, CMD_REGISTER, Opcode, RingCmd, RingEntInOut};
use hearth::Errno;
use hearth_sync::primitive::Arc;
use io_uring::types::{Fd, Fixed};
use io_uring::{opcode, squeue::Entry128};
use std::io;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Entries that a queue begins with.
pub(crate) const DEPTH: usize = 8;
/// Marks the completion of the poll that waits for the mailbox.
const WAKE: u64 = u64::MAX;
/// Parked requests that may go on between two looks at the ring.
const TURNS: usize = 2;

/// What a queue thread is made of.
pub(crate) struct QueueParts<S> {
    pub device: Arc<Device>,
    pub hall: Arc<SessionShared<S>>,
    /// Bytes of payload that the kernel wants in each entry.
    pub payload: usize,
}

impl<S> Clone for QueueParts<S> {
    fn clone(&self) -> QueueParts<S> {
        QueueParts {
            device: Arc::clone(&self.device),
            hall: Arc::clone(&self.hall),
            payload: self.payload,
        }
    }
}

/// A ring that was set up by the thread that will use it, before the connection is told of rings.
pub(crate) struct PreparedQueue {
    ring: Ring,
    mailbox: Arc<CompletionQueue>,
    /// CPUs whose requests come here: the thread's own first.
    cpus: Vec<usize>,
}

impl PreparedQueue {
    /// Pins the calling thread and makes its ring.
    ///
    /// # Errors
    /// What io_uring answers: `ENOSYS`, `EPERM` where it is forbidden, `ENOMEM`.
    pub fn new(cpus: Vec<usize>) -> io::Result<PreparedQueue> {
        cpu::pin(cpus[0]);
        Ok(PreparedQueue {
            ring: Ring::new()?,
            mailbox: Arc::new(CompletionQueue::new()?),
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
            mailbox,
            cpus,
        } = self;
        // The ring's own reference: commands of several CPUs would otherwise count theirs on one
        // cache line.
        ring.register_file(parts.device.raw())?;
        let bell = Arc::clone(&mailbox);
        let unpark = Box::new(move || bell.event.set());
        let desk = RequestQueue::new(&parts.hall, ring.raw(), unpark);
        let desk = desk.ok_or_else(|| io::Error::other("the volume has no seat left"))?;
        mailbox.own();
        let mut queue = Queue {
            ring,
            mailbox,
            parts,
            desk,
            entries: Vec::new(),
            live: 0,
            parked: 0,
            spare: cpus.len() + DEPTH - 1,
            nudges: Kicks::default(),
            answered: None,
            completed: Vec::with_capacity(COMPLETIONS as usize),
        };
        for (place, &cpu) in cpus.iter().enumerate() {
            // A CPU that is not there sends nothing until it comes: one entry will do.
            for _ in 0..if place == 0 { DEPTH } else { 1 } {
                queue.add_entry(cpu as u16)?;
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
    desk: RequestQueue<S>,
    // So that it is gone before the memory that its entries point to.
    ring: Ring,
    entries: Vec<Entry>,
    /// Entries that did not complete with an error yet.
    live: usize,
    /// Entries that a worker or a task will answer.
    parked: usize,
    /// Entries that are not parked are at least so many.
    spare: usize,
    /// Requests that the kernel may keep though entries are free.
    nudges: Kicks,
    /// Since when the last answer is ready, if nothing was done since.
    answered: Option<Instant>,
    /// Completions that were seen and not worked on yet: user data and result.
    completed: Vec<(u64, i32)>,
    mailbox: Arc<CompletionQueue>,
    parts: QueueParts<S>,
}

struct Entry {
    /// Absent while a parked request has it.
    region: Option<Region>,
    queue: u16,
}

impl<S: Service> Queue<S> {
    /// Answers requests until the mount is gone.
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
            let order = self.desk.has_rivals() && (completed.len() > 1 || self.desk.has_work());
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
            // The room is kept for the next round.
            self.completed = completed;
            if self.desk.is_busy() {
                self.desk.run(TURNS);
                self.answered = None;
            }
            if let Err(error) = self.deliver() {
                return self.give_up(error);
            }
        }
        Ok(())
    }

    /// Submits, and waits for completions where there is nothing else to do.
    fn fetch(&mut self) -> io::Result<()> {
        let answered = self.answered.take();
        if !self.desk.has_work() && self.nudges.are_wanted(self.parked) {
            // What a commit fetched is there when it was submitted.
            self.ring.submit()?;
            self.collect();
            if !self.completed.is_empty() {
                return Ok(());
            }
            self.nudges.send(&self.parts.device);
        }
        let (ring, desk) = (&mut self.ring, &mut self.desk);
        if !desk.is_busy() {
            if let Some(answered) = answered
                && desk.is_pressed()
            {
                // The client runs before this call returns, and asks for more: then there is no
                // going to sleep and being woken. Once it did not, it is waited for again, so that
                // is at most once in a while, however long it is.
                desk.give_way(answered, Duration::MAX, || ring.submit())?;
            }
            ring.wait()?;
        } else if desk.has_work() {
            ring.wait_for(Duration::ZERO)?;
        } else {
            let mut done = Ok(());
            desk.wait(|limit| {
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
        // CPUs that are not there have an entry each, which is free.
        let others = self.spare - DEPTH;
        let free = self.live.saturating_sub(self.parked + came + others);
        self.nudges.collected(came, free);
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
        let (header, args) = header(region);
        self.nudges.see(&header);
        if header.opcode == Opcode::NotifyReply as u32 {
            self.nudges.returned();
            return self.commit(index, 0, 0);
        }
        let reason = match self.desk.look(&header, args) {
            Admission::Park(reason) => reason,
            Admission::Now if order && RequestQueue::<S>::may_wait(&header) => Reason::Turn,
            Admission::Now => return self.serve(index, scratch),
        };
        self.park(index, Some(reason), None)
    }

    fn serve(&mut self, index: usize, scratch: &mut [u8]) -> io::Result<()> {
        let Some(region) = &mut self.entries[index].region else {
            return Ok(());
        };
        let Handled { answer, span } =
            answer(&*self.parts.hall.service, region, scratch, Attempt::FIRST);
        if !matches!(answer, Answer::Absent(_) | Answer::Refused(_)) {
            self.desk.served(&span);
        }
        self.answered = match answer {
            Answer::Reply(_) | Answer::Error(_) => Some(span.ended),
            _ => None,
        };
        match answer {
            Answer::Reply(len) => self.commit(index, 0, len),
            Answer::Error(errno) => self.commit(index, errno.0, 0),
            Answer::Silent => self.commit(index, 0, 0),
            Answer::Pieces(work) => {
                if let Some(region) = self.entries[index].region.take() {
                    let parcel = RingRequest::new(index, region, &self.mailbox);
                    self.desk.park_pieces(parcel, work);
                }
                self.replace(index)
            }
            Answer::Absent(absent) => self.park(index, None, Some(absent)),
            Answer::Refused(done) => self.park(index, Some(Reason::Room(done)), None),
            Answer::Offload(later) => {
                let (mailbox, hall) = (Arc::clone(&self.mailbox), &self.parts.hall);
                let finish =
                    Box::new(move |result| mailbox.put(Completion::InlineReply(index, result)));
                let tenant = hall.service.tenant(&header(region).0);
                hall.workers.of(tenant).submit(later, finish);
                self.replace(index)
            }
        }
    }

    /// Makes a task of the request in entry `index`.
    fn park(
        &mut self,
        index: usize,
        reason: Option<Reason>,
        absent: Option<Absent>,
    ) -> io::Result<()> {
        if let Some(region) = self.entries[index].region.take() {
            let parcel = RingRequest::new(index, region, &self.mailbox);
            self.desk.park(parcel, reason, absent);
        }
        self.replace(index)
    }

    /// An entry is parked: there is another one in its place, if too few are left.
    fn replace(&mut self, index: usize) -> io::Result<()> {
        self.parked += 1;
        match self.entries.len() - self.parked < self.spare {
            true => self.add_entry(self.entries[index].queue),
            false => Ok(()),
        }
    }

    /// Commits what workers and tasks have answered.
    fn deliver(&mut self) -> io::Result<()> {
        for letter in self.mailbox.take() {
            self.answered = None;
            self.parked -= 1;
            match letter {
                Completion::Parked(index, region, result) => {
                    self.entries[index].region = Some(region);
                    let (error, len) = match result {
                        Ok(len) => (0, len),
                        Err(errno) => (errno.0, 0),
                    };
                    self.commit(index, error, len)?;
                }
                Completion::InlineReply(index, result) => {
                    let small = result
                        .as_ref()
                        .map(|small| small.bytes())
                        .unwrap_or_default();
                    if let Some(region) = &mut self.entries[index].region {
                        region.split().1[..small.len()].copy_from_slice(small);
                    }
                    let error = result.err().map_or(0, |errno: Errno| errno.0);
                    self.commit(index, error, small.len())?;
                }
            }
        }
        Ok(())
    }

    /// Answers the request in entry `index` and makes the entry available again.
    fn commit(&mut self, index: usize, error: i32, len: usize) -> io::Result<()> {
        let entry = &mut self.entries[index];
        let Some(region) = &mut entry.region else {
            return Ok(());
        };
        let unique = header(region).0.unique;
        let (head, _) = region.split();
        let commit_id = head.ent.commit_id;
        let out = out_header(unique, error, len);
        head.in_out[..out.as_bytes().len()].copy_from_slice(out.as_bytes());
        head.ent = RingEntInOut {
            commit_id,
            payload_sz: len as u32,
            ..Default::default()
        };
        let command = RingCmd {
            commit_id,
            qid: entry.queue,
            ..Default::default()
        };
        let sqe = command_entry(CMD_COMMIT_AND_FETCH, &command, 0, 0);
        self.push(sqe.user_data(index as u64))
    }

    /// One more entry for the requests of CPU `queue`.
    fn add_entry(&mut self, queue: u16) -> io::Result<()> {
        let region = Region::map(self.parts.payload)?;
        let command = RingCmd {
            qid: queue,
            ..Default::default()
        };
        let index = self.entries.len();
        let sqe = command_entry(CMD_REGISTER, &command, region.parts(), 2);
        let region = Some(region);
        self.entries.push(Entry { region, queue });
        self.live += 1;
        self.push(sqe.user_data(index as u64))
    }

    /// The mailbox's event was set.
    fn listen_again(&mut self) -> io::Result<()> {
        // Before the letters are looked at: one that comes in between sets it again.
        self.mailbox.event.reset();
        self.listen()
    }

    /// Has the ring wait for the mailbox's event.
    fn listen(&mut self) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(self.mailbox.event.raw()), libc::POLLIN as u32).build();
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

/// A submission with a command for the FUSE device, the first file of the ring.
fn command_entry(number: u32, command: &RingCmd, addr: u64, len: u32) -> Entry128 {
    let mut bytes = [0; 80];
    bytes[..size_of::<RingCmd>()].copy_from_slice(command.as_bytes());
    let mut sqe = opcode::UringCmd80::new(Fixed(0), number)
        .cmd(bytes)
        .addr(Some(addr))
        .build();
    // SAFETY: Entry128 is `struct io_uring_sqe` with 64 bytes behind it, repr(C); its field `len`
    // is the u32 at byte 24. The builder of this command leaves it 0.
    unsafe { (&raw mut sqe).cast::<u8>().add(24).cast::<u32>().write(len) };
    sqe
}
