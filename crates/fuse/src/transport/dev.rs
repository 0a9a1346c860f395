//! Threads that read `/dev/fuse`.
//!
//! A reader is in one of two modes. As a rule it waits in `read`, and handles what comes. While
//! requests are parked with it, or several tenants' requests wait at the same time, it takes all
//! that are there without waiting, lets the scheduler say which is next, and sleeps where both the
//! kernel and the scheduler wake it.

use super::buffer::Buffer;
use super::device::{Device, Incoming};
use super::event::Event;
use crate::log::say;
use crate::placement::cpu;
use crate::placement::reader_admission::ReaderAdmission;
use crate::wait::chunked;
use crate::wait::request_queue::{Admission, RequestQueue};
use crate::wait::request_task::{PendingRequest, Reason, Step};
use crate::wait::service::{
    Absent, Answer, Attempt, Handled, InlineReply, Offload, Pieces, Service, Span,
};
use crate::wait::session_shared::SessionShared;
use crate::wait::waiting::RequestId;
use crate::wait::workers::Finish;
use crate::wire::request::RawRequest;
use crate::wire::{InHeader, Opcode, READ_OVERHEAD, WriteIn};
use hearth::Errno;
use hearth_sync::primitive::{Arc, thread_local};
use std::cell::RefCell;
use std::io;
use std::time::Duration;
use zerocopy::FromBytes;

/// Room for an answer to anything but READ and listings, which have the size that the kernel gave
/// them.
const SMALL_ANSWER: usize = 1 << 17;
/// Bytes of a WRITE before its data.
const WRITE_HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();
/// Requests that are taken before one of them is handled.
const INTAKE: usize = 256;
/// Parked requests that may go on between two looks at the kernel's queue.
const TURNS: usize = 2;
/// Of so many requests of rivals, one is followed by a look whether another waits.
const LOOK: u32 = 16;
/// A client may compute so long in the place of the reader that answered it, which has nothing to
/// do. Below what a program gets at a time that keeps others waiting: a tick, or 1.4 ms.
const AWAY: Duration = Duration::from_millis(1);
/// Bytes of answers that are copied in no time.
const SHORT: usize = 32 << 10;

/// What one reading thread needs.
pub(crate) struct Reader<S> {
    pub device: Arc<Device>,
    pub hall: Arc<SessionShared<S>>,
    /// Largest data of a request in bytes.
    pub max_write: usize,
    pub setxattr_ext: bool,
    /// The CPU to stay on, and the place among the readers of the others.
    pub place: Option<Place>,
}

/// A reader's place among several.
pub(crate) struct Place {
    pub cpu: usize,
    pub seats: Arc<ReaderAdmission>,
    pub number: usize,
    /// Whether other readers have the same descriptor.
    pub shares: bool,
}

impl<S: Service> Reader<S> {
    /// Reads and answers until the mount is gone.
    ///
    /// # Errors
    /// What reading answers when the mount is still there.
    pub fn run(self) -> io::Result<()> {
        let buffer = || Buffer::new(self.max_write + READ_OVERHEAD, WRITE_HEAD);
        let mut answer = Buffer::new(self.max_write.max(SMALL_ANSWER), 0);
        let Some(place) = &self.place else {
            return self.read_alone(buffer().bytes(), answer.bytes());
        };
        cpu::pin(place.cpu);
        // However this reader ends: the others, and the lookout, must not wait for ever.
        let _closed = CloseAdmission(&place.seats);
        let event = Arc::new(Event::new()?);
        let bell = Arc::clone(&event);
        let unpark = Box::new(move || bell.set());
        let desk = RequestQueue::new(&self.hall, self.device.raw(), unpark);
        let desk = desk.ok_or_else(|| io::Error::other("the volume has no seat left"))?;
        let mut turns = Turns {
            reader: &self,
            place,
            desk,
            event,
            buffers: [buffer(), buffer()],
            answer,
            waits: true,
            looks: 0,
        };
        let result = turns.read();
        turns.close();
        result
    }

    /// Without a place nothing is parked: what is absent is waited for.
    fn read_alone(&self, request: &mut [u8], answer: &mut [u8]) -> io::Result<()> {
        loop {
            match self.device.receive(request)? {
                Incoming::Request(size) => {
                    let Some(raw) = self.raw(&request[..size]) else {
                        continue;
                    };
                    self.finish_alone(&raw, answer);
                }
                Incoming::Nothing => {}
                Incoming::End => return Ok(()),
            }
        }
    }

    fn finish_alone(&self, raw: &RawRequest<'_>, answer: &mut [u8]) {
        let unique = raw.header.unique;
        loop {
            match self.serve(raw, answer, Attempt::ONLY).1 {
                Served::Answer(result) => return send(&self.device, unique, result),
                Served::Lacks(Lack::Absent(absent)) => {
                    if let Err(errno) = self.hall.service.bring(&absent) {
                        return send(&self.device, unique, Err(errno));
                    }
                }
                Served::Lacks(Lack::Pieces(work)) => {
                    let later = chunked::alone(&self.hall.service, work);
                    return self.finish_later(&raw.header, later);
                }
                Served::Lacks(Lack::Room(_)) | Served::Silent => return,
            }
        }
    }

    /// Has a worker finish a request.
    fn finish_later(&self, header: &InHeader, later: Offload) {
        let finish = finish(Arc::clone(&self.device), header.unique);
        let tenant = self.hall.service.tenant(header);
        self.hall.workers.of(tenant).submit(later, finish);
    }

    fn raw<'r>(&self, request: &'r [u8]) -> Option<RawRequest<'r>> {
        let raw = RawRequest::from_buffer(request, self.setxattr_ext);
        if raw.is_none() {
            let size = request.len();
            say(format_args!("{size} bytes from /dev/fuse are no request"));
        }
        raw
    }

    /// Handles a request; when, and what became of it.
    fn serve<'o>(
        &self,
        raw: &RawRequest<'_>,
        out: &'o mut [u8],
        attempt: Attempt,
    ) -> (Span, Served<'o>) {
        let Handled { answer, span } = self.hall.service.handle(raw, out, attempt);
        let served = match answer {
            Answer::Reply(size) => Served::Answer(Ok(&out[..size])),
            Answer::Error(errno) => Served::Answer(Err(errno)),
            Answer::Silent => Served::Silent,
            Answer::Offload(later) => {
                self.finish_later(&raw.header, later);
                Served::Silent
            }
            Answer::Pieces(work) => Served::Lacks(Lack::Pieces(work)),
            Answer::Absent(absent) => Served::Lacks(Lack::Absent(absent)),
            Answer::Refused(done) => Served::Lacks(Lack::Room(done)),
        };
        (span, served)
    }
}

/// What became of a request.
enum Served<'o> {
    /// It is to be answered so.
    Answer(Result<&'o [u8], Errno>),
    /// Nothing is to be said, or somebody else will.
    Silent,
    Lacks(Lack),
}

/// What a request lacked.
enum Lack {
    /// Time.
    Pieces(Pieces),
    Absent(Absent),
    /// For what follows so many bytes.
    Room(usize),
}

/// A reader at work beside others.
struct Turns<'r, S> {
    reader: &'r Reader<S>,
    place: &'r Place,
    desk: RequestQueue<S>,
    event: Arc<Event>,
    /// For a request, and for the one behind it.
    buffers: [Buffer; 2],
    answer: Buffer,
    /// Whether `read` waits, as far as this reader has said.
    waits: bool,
    /// Requests of rivals since the last look at what waits behind them.
    looks: u32,
}

/// Whether reading goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Wait,
    /// Requests of several tenants wait.
    Order,
    End,
}

impl<S: Service> Turns<'_, S> {
    fn read(&mut self) -> io::Result<()> {
        let mut next = Next::Wait;
        loop {
            next = match next {
                Next::End => return Ok(()),
                _ if self.desk.is_busy() => self.take_all()?,
                Next::Order => self.take_all()?,
                Next::Wait => self.take_one()?,
            };
        }
    }

    /// Waits in the kernel while it has a seat, for a seat otherwise.
    fn take_one(&mut self) -> io::Result<Next> {
        self.set_waiting(true)?;
        self.place.seats.wait(self.place.number);
        match self.receive(0)? {
            Incoming::Request(size) => self.handle(0, size),
            Incoming::Nothing => {
                // Somebody with whom it shares the descriptor may not wait in `read`.
                self.reader.device.poll(None, None);
            }
            Incoming::End => return Ok(Next::End),
        }
        if self.desk.has_rivals() {
            self.looks += 1;
            if self.looks >= LOOK {
                self.looks = 0;
                if self.reader.device.poll(None, Some(Duration::ZERO)) {
                    return Ok(Next::Order);
                }
            }
        }
        Ok(Next::Wait)
    }

    /// Takes what is there, lets some of it go on, and sleeps if there is nothing to do.
    fn take_all(&mut self) -> io::Result<Next> {
        self.set_waiting(false)?;
        let mut taken = 0;
        while taken < INTAKE {
            let (first, size) = match self.receive(0)? {
                Incoming::Request(size) => (0, size),
                Incoming::Nothing => break,
                Incoming::End => return Ok(Next::End),
            };
            taken += 1;
            if !self.desk.has_rivals() {
                self.handle(first, size);
                continue;
            }
            if self.desk.has_work() {
                self.queue(first, size);
                continue;
            }
            // A request that is alone need not be put in any order.
            match self.receive(1)? {
                Incoming::Request(second) => {
                    taken += 1;
                    self.queue(first, size);
                    self.queue(1, second);
                }
                Incoming::Nothing => self.handle(first, size),
                Incoming::End => return Ok(Next::End),
            }
        }
        if self.desk.run(TURNS) || taken > 0 {
            return Ok(Next::Order);
        }
        if self.desk.is_busy() {
            let (device, event) = (&self.reader.device, &self.event);
            self.desk.wait(|limit| {
                device.poll(Some(event.raw()), limit);
                event.reset();
            });
        }
        Ok(Next::Wait)
    }

    fn receive(&mut self, buffer: usize) -> io::Result<Incoming> {
        let buffer = self.buffers[buffer].bytes();
        let incoming = self.reader.device.receive(buffer)?;
        if let Incoming::Request(size) = incoming
            && let Ok((header, _)) = InHeader::read_from_prefix(&buffer[..size])
        {
            let is_write = header.opcode == Opcode::Write as u32;
            let (seats, number) = (&self.place.seats, self.place.number);
            seats.serves(number, header.pid, is_write && header.pid == 0);
        }
        Ok(incoming)
    }

    /// Handles a request at once, if it may go on.
    fn handle(&mut self, buffer: usize, size: usize) {
        let request = &self.buffers[buffer].bytes()[..size];
        let Some(raw) = self.reader.raw(request) else {
            return;
        };
        match self.desk.look(&raw.header, raw.args) {
            Admission::Now => {
                let out = self.answer.bytes();
                let (span, served) = self.reader.serve(&raw, out, Attempt::FIRST);
                let (reason, absent) = match served {
                    Served::Answer(result) => {
                        let (device, unique) = (&self.reader.device, raw.header.unique);
                        let give = || send(device, unique, result);
                        // To copy more takes time, which is not spent waiting.
                        let is_short = result.map_or(0, <[u8]>::len) <= SHORT;
                        if self.waits && is_short && !self.desk.is_busy() {
                            self.desk.give_way(span.ended, AWAY, give);
                        } else {
                            give();
                        }
                        return self.desk.served(&span);
                    }
                    Served::Silent => return self.desk.served(&span),
                    Served::Lacks(Lack::Pieces(work)) => {
                        let parcel = DevRequest::new(self.reader, &raw, request);
                        return self.desk.park_pieces(parcel, work);
                    }
                    Served::Lacks(Lack::Absent(absent)) => (None, Some(absent)),
                    Served::Lacks(Lack::Room(done)) => (Some(Reason::Room(done)), None),
                };
                let parcel = DevRequest::new(self.reader, &raw, request);
                self.desk.park(parcel, reason, absent);
            }
            Admission::Park(reason) => {
                let parcel = DevRequest::new(self.reader, &raw, request);
                self.desk.park(parcel, Some(reason), None);
            }
        }
    }

    /// Parks a request, so that the scheduler says when it goes on.
    fn queue(&mut self, buffer: usize, size: usize) {
        let request = &self.buffers[buffer].bytes()[..size];
        let Some(raw) = self.reader.raw(request) else {
            return;
        };
        if !RequestQueue::<S>::may_wait(&raw.header) {
            return self.handle(buffer, size);
        }
        let reason = match self.desk.look(&raw.header, raw.args) {
            Admission::Now => Reason::Turn,
            Admission::Park(reason) => reason,
        };
        let parcel = DevRequest::new(self.reader, &raw, request);
        self.desk.park(parcel, Some(reason), None);
    }

    fn set_waiting(&mut self, waits: bool) -> io::Result<()> {
        // It is the descriptor's: once one of its readers may not wait in `read`, none does.
        if self.waits != waits && !(waits && self.place.shares) {
            self.reader.device.set_waiting(waits)?;
            self.waits = waits;
        }
        Ok(())
    }

    fn close(&mut self) {
        let event = Arc::clone(&self.event);
        self.desk.close(|limit| {
            // The device is ready for ever: it tells of the end.
            event.wait(limit);
            event.reset();
        });
    }
}

/// A request that was copied out of its reader's buffer, answered through its reader's descriptor.
struct DevRequest {
    bytes: Box<[u8]>,
    asker: RequestId,
    setxattr_ext: bool,
    device: Arc<Device>,
    /// Bytes that an answer may have.
    room: usize,
}

thread_local! {
    /// Where a task's answer is built: it is sent before the task steps back.
    static ANSWER: RefCell<Option<Buffer>> = const { RefCell::new(None) };
}

impl DevRequest {
    fn new<S>(reader: &Reader<S>, raw: &RawRequest<'_>, request: &[u8]) -> DevRequest {
        DevRequest {
            bytes: request.into(),
            asker: RequestId::of(&raw.header),
            setxattr_ext: reader.setxattr_ext,
            device: Arc::clone(&reader.device),
            room: reader.max_write.max(SMALL_ANSWER),
        }
    }
}

impl PendingRequest for DevRequest {
    fn asker(&self) -> RequestId {
        self.asker
    }

    fn work<S: Service>(self, service: &S, attempt: Attempt) -> Step<DevRequest> {
        let Some(raw) = RawRequest::from_buffer(&self.bytes, self.setxattr_ext) else {
            return Step::Done;
        };
        let step = ANSWER.with_borrow_mut(|buffer| {
            let buffer = buffer.get_or_insert_with(|| Buffer::new(self.room, 0));
            if buffer.bytes().len() < self.room {
                *buffer = Buffer::new(self.room, 0);
            }
            let out = buffer.bytes();
            match service.handle(&raw, out, attempt).answer {
                Answer::Silent => Step::Done,
                answer => Step::of(answer, (), |(), result| {
                    send(
                        &self.device,
                        self.asker.unique,
                        result.map(|size| &out[..size]),
                    );
                }),
            }
        });
        step.with(self)
    }

    fn refuse(self, errno: Errno) {
        send(&self.device, self.asker.unique, Err(errno));
    }

    fn finish(self) -> Finish {
        finish(self.device, self.asker.unique)
    }
}

/// A reader that ends lets the others see the end.
struct CloseAdmission<'a>(&'a ReaderAdmission);

impl Drop for CloseAdmission<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn finish(device: Arc<Device>, unique: u64) -> Finish {
    Box::new(move |result: Result<InlineReply, Errno>| {
        let result = result
            .as_ref()
            .map(InlineReply::bytes)
            .map_err(|&errno| errno);
        send(&device, unique, result);
    })
}

/// An answer that the kernel refuses leaves its request waiting: worth a line.
fn send(device: &Device, unique: u64, result: Result<&[u8], Errno>) {
    if let Err(error) = device.answer(unique, result)
        && !matches!(
            error.raw_os_error(),
            Some(libc::ENODEV | libc::ECONNABORTED | libc::ENOTCONN)
        )
    {
        say(format_args!("answering request {unique}: {error}"));
    }
}

#[cfg(test)]
#[path = "dev_tests.rs"]
mod tests;
