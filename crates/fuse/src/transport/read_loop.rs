//! A reader of `/dev/fuse` at work beside others.
//!
//! It is in one of two modes. As a rule it waits in `read`, and handles what comes. While tasks of
//! its queue are open, or several tenants' requests wait at the same time, it takes all requests
//! that are there without waiting, lets the scheduler order them, and sleeps where both the kernel
//! and the scheduler wake it.

use super::buffer::Buffer;
use super::dev_request::send;
use super::device::Incoming;
use super::event::Event;
use super::reader::{Reader, ReaderPlace};
use crate::placement::reader_admission::{ReaderAdmission, ReaderCall};
use crate::wait::outcome::{Attempt, Outcome, WaitFor};
use crate::wait::request_queue::RequestQueue;
use crate::wait::service::{Handled, Service};
use crate::wait::workers::CallTurn;
use crate::wire::{InHeader, Opcode};
use hearth_sync::primitive::Arc;
use std::io;
use std::time::Duration;
use zerocopy::FromBytes;

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

/// A reader at work beside others.
pub(super) struct ReadLoop<'r, S> {
    reader: &'r Reader<S>,
    place: &'r ReaderPlace,
    queue: RequestQueue<S>,
    event: Arc<Event>,
    /// For a request, and for the one behind it.
    buffers: [Buffer; 2],
    reply: Buffer,
    /// Whether `read` waits, as far as this reader has said.
    waits: bool,
    /// Another reader reads, so that this one may block.
    has_deputy: bool,
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

impl<'r, S: Service> ReadLoop<'r, S> {
    pub fn new(
        reader: &'r Reader<S>,
        place: &'r ReaderPlace,
        queue: RequestQueue<S>,
        event: Arc<Event>,
        buffers: [Buffer; 2],
        reply: Buffer,
    ) -> ReadLoop<'r, S> {
        ReadLoop {
            reader,
            place,
            queue,
            event,
            buffers,
            reply,
            waits: true,
            has_deputy: false,
            looks: 0,
        }
    }

    /// Reads and replies until the mount is gone.
    ///
    /// # Errors
    /// What reading returns when the mount is still there.
    pub fn read(&mut self) -> io::Result<()> {
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
        let incoming = self.receive(0);
        self.has_deputy = self.place.admission.has_read();
        match incoming? {
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
        self.has_deputy = false;
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
            if let (WaitFor::Thread, true) = (&wait, self.has_deputy)
                && let Some(call) = self.place.admission.begin_call()
                && let Some(turn) = self.queue.begin_call()
            {
                return self.call(buffer, size, (call, turn));
            }
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

    /// Attempts a request that may block on this thread.
    fn call(&mut self, buffer: usize, size: usize, turn: (ReaderCall<'_>, CallTurn)) {
        let request = &self.buffers[buffer].bytes()[..size];
        let Some(raw) = self.reader.raw(request) else {
            return;
        };
        let attempt = Attempt {
            may_block: true,
            ..Attempt::FIRST
        };
        let out = self.reply.bytes();
        let service = &self.reader.shared.service;
        match service.handle(&raw, out, attempt).outcome {
            Outcome::Done(result) => {
                let result = result.map(|size| &out[..size]);
                send(&self.reader.device, raw.header.unique, result);
            }
            Outcome::NoReply => {}
            Outcome::Wait(WaitFor::Worker(offload)) => self.reader.offload(&raw.header, offload),
            Outcome::Wait(wait) => {
                let rest = self.reader.pending(&raw, request);
                self.queue.spawn_rest(rest, wait);
            }
        }
        drop(turn);
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

    /// Runs what is left to its end.
    pub fn close(&mut self) {
        let event = Arc::clone(&self.event);
        self.queue.close(|limit| {
            // The device stays readable: it tells of the end.
            event.wait(limit);
            event.reset();
        });
    }
}

/// A reader that ends lets the others see the end.
pub(super) struct CloseAdmission<'a>(pub &'a ReaderAdmission);

impl Drop for CloseAdmission<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
