//! One pinned thread with one ring per CPU.
//!
//! Life of an entry: registered, then in turns *available* (the kernel's), *completed* (this thread
//! answers and commits, which makes it available again) or *parked* (a worker will answer). A
//! parked entry is replaced by a fresh one, so that the requests behind it, the unlock that it
//! waits for among them, always find an entry. When the mount goes, every entry completes with an
//! error once; the thread ends with the last.

use super::cpu;
use super::device::Device;
use super::mailbox::Mailbox;
use super::region::Region;
use crate::reply::out_header;
use crate::request::RawRequest;
use crate::service::{Answer, Service, Small};
use crate::wire::{CMD_COMMIT_AND_FETCH, CMD_REGISTER, InHeader, Opcode, RingCmd, RingEntInOut};
use crate::workers::Workers;
use hearth::Errno;
use hearth_sync::primitive::Arc;
use io_uring::{IoUring, cqueue, opcode, squeue::Entry128, types::Fd};
use std::io;
use zerocopy::{FromBytes, IntoBytes};

/// Entries that a queue begins with.
pub(crate) const DEPTH: usize = 8;
/// Submissions that a ring holds; more are submitted in between.
const RING_SIZE: u32 = 64;
/// Completions that a ring holds; the kernel keeps what does not fit.
const COMPLETIONS: u32 = 1024;
/// Marks the completion of the poll that waits for the mailbox.
const WAKE: u64 = u64::MAX;
/// Requests with less payload are copied out, so that the answer can be built in place.
const COPIED: usize = 8192;

type Ring = IoUring<Entry128, cqueue::Entry>;

/// What a queue thread is made of.
pub(crate) struct QueueParts<S> {
    pub device: Arc<Device>,
    pub service: Arc<S>,
    pub workers: Arc<Workers>,
    /// Bytes of payload that the kernel wants in each entry.
    pub payload: usize,
}

impl<S> Clone for QueueParts<S> {
    fn clone(&self) -> QueueParts<S> {
        QueueParts {
            device: Arc::clone(&self.device),
            service: Arc::clone(&self.service),
            workers: Arc::clone(&self.workers),
            payload: self.payload,
        }
    }
}

/// A ring that was set up by the thread that will use it, before the connection is told of rings.
pub(crate) struct PreparedQueue {
    ring: Ring,
    mailbox: Arc<Mailbox>,
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
        let ring = IoUring::<Entry128, cqueue::Entry>::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETIONS)
            .build(RING_SIZE)?;
        Ok(PreparedQueue {
            ring,
            mailbox: Arc::new(Mailbox::new()?),
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
        let mut queue = Queue {
            ring,
            mailbox,
            parts,
            entries: Vec::new(),
            live: 0,
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
    // First, so that it is gone before the memory that its entries point to.
    ring: Ring,
    entries: Vec<Entry>,
    /// Entries that did not complete with an error yet.
    live: usize,
    /// Completions that were seen and not worked on yet: user data and result.
    completed: Vec<(u64, i32)>,
    mailbox: Arc<Mailbox>,
    parts: QueueParts<S>,
}

struct Entry {
    region: Region,
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
            if self.completed.is_empty() {
                match self.ring.submit_and_wait(1) {
                    Err(error) if !is_passing(&error) => return self.give_up(error),
                    _ => self.collect(),
                }
            }
            let mut completed = std::mem::take(&mut self.completed);
            for (data, result) in completed.drain(..) {
                let next = match data {
                    WAKE => self.deliver(),
                    _ if result < 0 => self.lost(result),
                    index => self.serve(index as usize, &mut scratch),
                };
                if let Err(error) = next {
                    return self.give_up(error);
                }
            }
            // The room is kept for the next round.
            self.completed = completed;
        }
        Ok(())
    }

    fn collect(&mut self) {
        let completed = self
            .ring
            .completion()
            .map(|cqe| (cqe.user_data(), cqe.result()));
        self.completed.extend(completed);
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

    fn serve(&mut self, index: usize, scratch: &mut [u8]) -> io::Result<()> {
        let entry = &mut self.entries[index];
        let (head, payload) = entry.region.split();
        let (ent, header) = (head.ent, request_header(&head.in_out));
        let size = (ent.payload_sz as usize).min(payload.len());
        let unique = header.unique;
        let fixed = Opcode::from_number(header.opcode).map_or(0, Opcode::fixed_size);
        let args = &head.op_in[..fixed.min(head.op_in.len())];

        let answer = if size <= COPIED {
            let (copy, _) = scratch.split_at_mut(size);
            copy.copy_from_slice(&payload[..size]);
            self.parts.service.handle(
                &RawRequest {
                    header,
                    args,
                    payload: copy,
                },
                payload,
            )
        } else {
            let request = RawRequest {
                header,
                args,
                payload: &payload[..size],
            };
            match self.parts.service.handle(&request, scratch) {
                Answer::Reply(len) => {
                    payload[..len].copy_from_slice(&scratch[..len]);
                    Answer::Reply(len)
                }
                other => other,
            }
        };
        match answer {
            Answer::Reply(len) => self.commit(index, unique, 0, len),
            Answer::Error(errno) => self.commit(index, unique, errno.0, 0),
            Answer::Silent => self.commit(index, unique, 0, 0),
            Answer::Later(later) => {
                let queue = entry.queue;
                let mailbox = Arc::clone(&self.mailbox);
                let finish = Box::new(move |result| mailbox.put(index, result));
                self.parts.workers.submit(later, finish);
                self.add_entry(queue)
            }
        }
    }

    /// Commits what workers have answered, and listens for more.
    fn deliver(&mut self) -> io::Result<()> {
        for (index, result) in self.mailbox.take() {
            let (head, payload) = self.entries[index].region.split();
            let unique = head.ent.commit_id;
            let small = result.as_ref().map(Small::bytes).unwrap_or_default();
            payload[..small.len()].copy_from_slice(small);
            let error = result.err().map_or(0, |errno: Errno| errno.0);
            self.commit(index, unique, error, small.len())?;
        }
        self.listen()
    }

    /// Answers the request in entry `index` and makes the entry available again.
    fn commit(&mut self, index: usize, unique: u64, error: i32, len: usize) -> io::Result<()> {
        let entry = &mut self.entries[index];
        let (head, _) = entry.region.split();
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
        let sqe = command_entry(
            self.parts.device.raw(),
            CMD_COMMIT_AND_FETCH,
            &command,
            0,
            0,
        );
        self.push(sqe.user_data(index as u64))
    }

    /// One more entry for the requests of CPU `queue`.
    fn add_entry(&mut self, queue: u16) -> io::Result<()> {
        let region = Region::map(self.parts.payload)?;
        let command = RingCmd {
            qid: queue,
            ..Default::default()
        };
        let (device, index) = (self.parts.device.raw(), self.entries.len());
        let sqe = command_entry(device, CMD_REGISTER, &command, region.parts(), 2);
        self.entries.push(Entry { region, queue });
        self.live += 1;
        self.push(sqe.user_data(index as u64))
    }

    /// Has the ring wait for the mailbox's event.
    fn listen(&mut self) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(self.mailbox.event()), libc::POLLIN as u32).build();
        self.push(Entry128::from(poll).user_data(WAKE))
    }

    fn push(&mut self, sqe: Entry128) -> io::Result<()> {
        loop {
            // SAFETY: what the entry points to (its region and the region's boxed ranges) is owned
            // by `self` and outlives the ring: entries are never removed and `ring` is dropped
            // first.
            if unsafe { self.ring.submission().push(&sqe) }.is_ok() {
                return Ok(());
            }
            match self.ring.submit() {
                Err(error) if !is_passing(&error) => return Err(error),
                _ => {}
            }
        }
    }

    /// The ring failed. The kernel may still write to the entries, so their memory is never reused.
    fn give_up(mut self, error: io::Error) -> io::Result<()> {
        std::mem::forget(std::mem::take(&mut self.entries));
        Err(error)
    }
}

/// Whether the same call may succeed the next time.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)
    )
}

fn request_header(in_out: &[u8]) -> InHeader {
    InHeader::read_from_prefix(in_out)
        .map(|(header, _)| header)
        .unwrap_or_default()
}

/// A submission with a command for the FUSE device.
fn command_entry(device: i32, number: u32, command: &RingCmd, addr: u64, len: u32) -> Entry128 {
    let mut bytes = [0; 80];
    bytes[..size_of::<RingCmd>()].copy_from_slice(command.as_bytes());
    let mut sqe = opcode::UringCmd80::new(Fd(device), number)
        .cmd(bytes)
        .addr(Some(addr))
        .build();
    // SAFETY: Entry128 is `struct io_uring_sqe` with 64 bytes behind it, repr(C); its field `len`
    // is the u32 at byte 24. The builder of this command leaves it 0.
    unsafe { (&raw mut sqe).cast::<u8>().add(24).cast::<u32>().write(len) };
    sqe
}
