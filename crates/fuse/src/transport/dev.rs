//! Threads that read `/dev/fuse`.
//!
//! A reader is in one of two modes. As a rule it waits in `read`, and handles what comes. While
//! tasks of its queue are open, or several tenants' requests wait at the same time, it takes all
//! requests that are there without waiting, lets the scheduler order them, and sleeps where both
//! the kernel and the scheduler wake it.

use super::buffer::Buffer;
use super::dev_request::{DevRequest, finish, send};
use super::device::{Device, Incoming};
use super::event::Event;
use crate::log::say;
use crate::placement::cpu;
use crate::placement::reader_admission::ReaderAdmission;
use crate::wait::outcome::{Attempt, Offload, Outcome, WaitFor};
use crate::wait::request_queue::RequestQueue;
use crate::wait::request_task::{self, OpenTask};
use crate::wait::service::{Handled, Service};
use crate::wait::session_shared::SessionShared;
use crate::wire::request::RawRequest;
use crate::wire::{InHeader, Opcode, READ_OVERHEAD, WriteIn};
use hearth::sched::Spec;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use hearth_sync::primitive::{Arc, thread};
use std::io;
use std::time::Duration;
use zerocopy::FromBytes;

/// Space for a reply to anything but READ and listings, which have the size that the kernel gave
/// them.
const SMALL_REPLY: usize = 1 << 17;
/// Bytes of a WRITE before its data.
const WRITE_HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();
/// Requests that are taken before one of them is handled.
const INTAKE: usize = 256;
/// Tasks that run between two looks at the kernel's queue.
const TASK_STEPS: usize = 2;
/// Of this many requests of rivals, one is followed by a look whether another waits.
const LOOK: u32 = 16;
/// A client may compute this long in the place of the reader that replied to it, which has nothing
/// to do. Below what a program gets at a time that keeps others waiting: a tick, or 1.4 ms.
const AWAY: Duration = Duration::from_millis(1);
/// Bytes of replies that are copied in no time.
const SHORT: usize = 32 << 10;

/// What one reading thread needs.
pub(crate) struct Reader<S> {
    pub device: Arc<Device>,
    pub shared: Arc<SessionShared<S>>,
    /// Largest data of a request in bytes.
    pub max_write: usize,
    pub setxattr_ext: bool,
    /// The CPU to stay on, and the place among the readers of the others. `None` beside rings.
    pub place: Option<ReaderPlace>,
}

/// A reader's place among several.
pub(crate) struct ReaderPlace {
    pub cpu: usize,
    pub admission: Arc<ReaderAdmission>,
    pub number: usize,
    /// Whether other readers have the same descriptor.
    pub shares: bool,
}

impl<S: Service> Reader<S> {
    /// Reads and replies until the mount is gone.
    ///
    /// # Errors
    /// What reading returns when the mount is still there.
    pub fn run(self) -> io::Result<()> {
        let buffer = || Buffer::new(self.max_write + READ_OVERHEAD, WRITE_HEAD);
        let mut reply = Buffer::new(self.reply_max(), 0);
        let Some(place) = &self.place else {
            return self.read_beside_rings(buffer().bytes(), reply.bytes());
        };
        cpu::pin(place.cpu);
        // However this reader ends, the others and the monitor must not wait for ever.
        let _closed = CloseAdmission(&place.admission);
        let event = Arc::new(Event::new()?);
        let bell = Arc::clone(&event);
        let unpark = Box::new(move || bell.set());
        let queue = RequestQueue::new(&self.shared, self.device.raw(), unpark);
        let queue = queue.ok_or_else(|| io::Error::other("the volume has no seat left"))?;
        let mut loop_ = ReadLoop {
            reader: &self,
            place,
            queue,
            event,
            buffers: [buffer(), buffer()],
            reply,
            waits: true,
            looks: 0,
        };
        let result = loop_.read();
        loop_.close();
        result
    }

    /// Without a queue of its own: what must wait becomes a task that the workers of the scheduler
    /// run. Rings leave FORGET and INTERRUPT to this reader, which never wait.
    fn read_beside_rings(&self, request: &mut [u8], reply: &mut [u8]) -> io::Result<()> {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            match self.device.receive(request)? {
                Incoming::Request(size) => {
                    self.handle_beside_rings(&request[..size], reply, &open);
                }
                Incoming::Nothing => {}
                Incoming::End => break,
            }
        }
        self.shared.waiting.close();
        // Relaxed: a task has sent its reply before it lowers this.
        while open.load(Ordering::Relaxed) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn handle_beside_rings(&self, request: &[u8], reply: &mut [u8], open: &Arc<AtomicUsize>) {
        let Some(raw) = self.raw(request) else {
            return;
        };
        let service = &self.shared.service;
        match service.handle(&raw, reply, Attempt::FIRST).outcome {
            Outcome::Done(result) => {
                let result = result.map(|size| &reply[..size]);
                send(&self.device, raw.header.unique, result);
            }
            Outcome::NoReply => {}
            Outcome::Wait(WaitFor::Worker(offload)) => self.offload(&raw.header, offload),
            Outcome::Wait(wait) => {
                let shared = Arc::new(self.shared.of(service.tenant(&raw.header)));
                let spec = Spec::of(shared.tenant());
                let request = self.pending(&raw, request);
                let task = request_task::run(shared, request, wait, OpenTask::new(open));
                drop(self.shared.sched.spawn(spec, task));
            }
        }
    }

    /// Has a worker finish a request.
    fn offload(&self, header: &InHeader, offload: Offload) {
        let finish = finish(Arc::clone(&self.device), header.unique);
        let tenant = self.shared.service.tenant(header);
        self.shared.workers.of(tenant).submit(offload, finish);
    }

    fn raw<'r>(&self, request: &'r [u8]) -> Option<RawRequest<'r>> {
        let raw = RawRequest::from_buffer(request, self.setxattr_ext);
        if raw.is_none() {
            let size = request.len();
            say(format_args!("{size} bytes from /dev/fuse are no request"));
        }
        raw
    }

    /// A copy of the request for a task.
    fn pending(&self, raw: &RawRequest<'_>, request: &[u8]) -> DevRequest {
        let (device, reply_max) = (&self.device, self.reply_max());
        DevRequest::new(device, raw, request, self.setxattr_ext, reply_max)
    }

    fn reply_max(&self) -> usize {
        self.max_write.max(SMALL_REPLY)
    }
}

/// A reader at work beside others.
struct ReadLoop<'r, S> {
    reader: &'r Reader<S>,
    place: &'r ReaderPlace,
    queue: RequestQueue<S>,
    event: Arc<Event>,
    /// For a request, and for the one behind it.
    buffers: [Buffer; 2],
    reply: Buffer,
    /// Whether `read` waits, as far as this reader has said.
    waits: bool,
    /// Requests of rivals since the last look at what waits behind them.
    looks: u32,
}

/// How reading goes on.
#[derive(PartialEq, Eq)]
enum Mode {
    /// Wait for one request.
    One,
    /// Take all: requests of several tenants wait.
    All,
    /// The mount is gone.
    End,
}

impl<S: Service> ReadLoop<'_, S> {
    fn read(&mut self) -> io::Result<()> {
        let mut mode = Mode::One;
        loop {
            mode = match mode {
                Mode::End => return Ok(()),
                _ if self.queue.is_busy() => self.take_all()?,
                Mode::All => self.take_all()?,
                Mode::One => self.take_one()?,
            };
        }
    }

    /// Waits in the kernel while this reader is admitted to it, for admission otherwise.
    fn take_one(&mut self) -> io::Result<Mode> {
        self.set_waiting(true)?;
        self.place.admission.wait(self.place.number);
        match self.receive(0)? {
            Incoming::Request(size) => self.handle(0, size),
            Incoming::Nothing => {
                // A reader that shares the descriptor may have made it non-blocking.
                self.reader.device.poll(None, None);
            }
            Incoming::End => return Ok(Mode::End),
        }
        if self.queue.has_rivals() {
            self.looks += 1;
            if self.looks >= LOOK {
                self.looks = 0;
                if self.reader.device.poll(None, Some(Duration::ZERO)) {
                    return Ok(Mode::All);
                }
            }
        }
        Ok(Mode::One)
    }

    /// Takes what is there, runs some tasks, and sleeps if there is nothing to do.
    fn take_all(&mut self) -> io::Result<Mode> {
        self.set_waiting(false)?;
        let mut taken = 0;
        while taken < INTAKE {
            let (first, size) = match self.receive(0)? {
                Incoming::Request(size) => (0, size),
                Incoming::Nothing => break,
                Incoming::End => return Ok(Mode::End),
            };
            taken += 1;
            if !self.queue.has_rivals() {
                self.handle(first, size);
                continue;
            }
            if self.queue.has_work() {
                self.enqueue(first, size);
                continue;
            }
            // A request that is alone needs no order.
            match self.receive(1)? {
                Incoming::Request(second) => {
                    taken += 1;
                    self.enqueue(first, size);
                    self.enqueue(1, second);
                }
                Incoming::Nothing => self.handle(first, size),
                Incoming::End => return Ok(Mode::End),
            }
        }
        if self.queue.run(TASK_STEPS) || taken > 0 {
            return Ok(Mode::All);
        }
        if self.queue.is_busy() {
            let (device, event) = (&self.reader.device, &self.event);
            self.queue.wait(|limit| {
                device.poll(Some(event.raw()), limit);
                event.reset();
            });
        }
        Ok(Mode::One)
    }

    fn receive(&mut self, buffer: usize) -> io::Result<Incoming> {
        let buffer = self.buffers[buffer].bytes();
        let incoming = self.reader.device.receive(buffer)?;
        if let Incoming::Request(size) = incoming
            && let Ok((header, _)) = InHeader::read_from_prefix(&buffer[..size])
        {
            let is_write = header.opcode == Opcode::Write as u32;
            let (admission, number) = (&self.place.admission, self.place.number);
            admission.serves(number, header.pid, is_write && header.pid == 0);
        }
        Ok(incoming)
    }

    /// Handles a request at once, if it is admitted.
    fn handle(&mut self, buffer: usize, size: usize) {
        let request = &self.buffers[buffer].bytes()[..size];
        let Some(raw) = self.reader.raw(request) else {
            return;
        };
        if let Some(wait) = self.queue.admit(&raw.header, raw.args) {
            return self.queue.spawn(self.reader.pending(&raw, request), wait);
        }
        let (device, unique) = (&self.reader.device, raw.header.unique);
        let out = self.reply.bytes();
        let service = &self.reader.shared.service;
        let Handled { outcome, span } = service.handle(&raw, out, Attempt::FIRST);
        match outcome {
            Outcome::Done(result) => {
                let result = result.map(|size| &out[..size]);
                let reply = || send(device, unique, result);
                // Copying more takes time that is not spent waiting.
                let is_short = result.map_or(0, <[u8]>::len) <= SHORT;
                if self.waits && is_short && !self.queue.is_busy() {
                    self.queue.give_way(span.ended, AWAY, reply);
                } else {
                    reply();
                }
            }
            Outcome::NoReply => {}
            Outcome::Wait(WaitFor::Worker(offload)) => self.reader.offload(&raw.header, offload),
            Outcome::Wait(wait) => {
                return self.queue.spawn(self.reader.pending(&raw, request), wait);
            }
        }
        self.queue.served(&span);
    }

    /// Makes a task of a request, so that the scheduler orders it.
    fn enqueue(&mut self, buffer: usize, size: usize) {
        let request = &self.buffers[buffer].bytes()[..size];
        let Some(raw) = self.reader.raw(request) else {
            return;
        };
        if !RequestQueue::<S>::may_queue(&raw.header) {
            return self.handle(buffer, size);
        }
        let wait = self.queue.admit(&raw.header, raw.args);
        let request = self.reader.pending(&raw, request);
        self.queue.spawn(request, wait.unwrap_or(WaitFor::Turn));
    }

    fn set_waiting(&mut self, waits: bool) -> io::Result<()> {
        // The flag is the descriptor's: once one of its readers clears it, it stays so.
        if self.waits != waits && !(waits && self.place.shares) {
            self.reader.device.set_waiting(waits)?;
            self.waits = waits;
        }
        Ok(())
    }

    fn close(&mut self) {
        let event = Arc::clone(&self.event);
        self.queue.close(|limit| {
            // The device stays readable: it tells of the end.
            event.wait(limit);
            event.reset();
        });
    }
}

/// A reader that ends lets the others see the end.
struct CloseAdmission<'a>(&'a ReaderAdmission);

impl Drop for CloseAdmission<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
#[path = "dev_tests.rs"]
mod tests;
