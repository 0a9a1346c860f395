//! The reading thread against a socket that keeps message boundaries, in the place of `/dev/fuse`.

use super::*;
use crate::placement::reader_admission::ReaderAdmission;
use crate::transport::device::Device;
use crate::wait::Park;
use crate::wait::outcome::{BlockingClass, InlineReply, Missing, Offload, Span};
use crate::wait::service::Handled;
use crate::wait::session_shared::SessionShared;
use crate::wait::waiting::Waiting;
use crate::wait::workers::Workers;
use crate::wire::request::RawRequest;
use crate::wire::{InHeader, OutHeader};
use hearth::sched::Scheduler;
use hearth::{Errno, TenantId};
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::SeqCst};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// Replies by opcode: to 1 with the payload backwards, to 5 with an error, to 17 not at all, to
/// others by a worker.
struct Mirror;

impl Service for Mirror {
    fn handle(&self, request: &RawRequest<'_>, out: &mut [u8], _: Attempt) -> Handled {
        let outcome = match request.header.opcode {
            1 => {
                let size = request.payload.len();
                out[..size].copy_from_slice(request.payload);
                out[..size].reverse();
                Outcome::Done(Ok(size))
            }
            5 => Outcome::Done(Err(Errno::ENOENT)),
            17 => Outcome::NoReply,
            _ => {
                let work = Box::new(|| Ok(InlineReply::new(&77u64)));
                Outcome::Wait(WaitFor::Worker(Offload::Blocks {
                    class: BlockingClass::Io,
                    work,
                }))
            }
        };
        let span = Span::since(Instant::now());
        Handled { outcome, span }
    }

    fn awaits_returns(&self) -> bool {
        false
    }

    fn tenant(&self, header: &InHeader) -> TenantId {
        TenantId::User(header.uid)
    }

    fn fetch(&self, _: &Missing) -> Result<(), Errno> {
        unreachable!("nothing is missed")
    }
}

/// What readers share, over a scheduler with a place for one of them.
fn shared(scheduler: &Scheduler, park: Park) -> Arc<SessionShared<Mirror>> {
    serving(Mirror, scheduler, park)
}

fn serving<S>(service: S, scheduler: &Scheduler, park: Park) -> Arc<SessionShared<S>> {
    Arc::new(SessionShared {
        service: Arc::new(service),
        workers: Arc::new(Workers::new(scheduler, usize::MAX)),
        idle: None,
        waiting: Arc::new(Waiting::default()),
        delayed: Arc::default(),
        sched: scheduler.handle(),
        park,
    })
}

/// A reader with a queue, beside no others.
fn reader(device: Device, shared: &Arc<SessionShared<Mirror>>) -> Reader<Mirror> {
    let admission = Arc::new(ReaderAdmission::new(&[0]));
    Reader {
        device: Arc::new(device),
        shared: Arc::clone(shared),
        max_write: 4096,
        setxattr_ext: true,
        place: Some(ReaderPlace {
            cpu: 0,
            admission,
            number: 0,
            shares: false,
            has_queue: true,
        }),
    }
}

/// A connected pair: the reader's device, the kernel's end, and that end as a socket.
fn pair() -> (Device, Device, UnixDatagram) {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let socket = theirs.try_clone().unwrap();
    (
        Device::from_fd(OwnedFd::from(ours)),
        Device::from_fd(OwnedFd::from(theirs)),
        socket,
    )
}

fn send(kernel: &Device, opcode: u32, unique: u64, payload: &[u8]) {
    send_as(0, kernel, opcode, unique, payload);
}

fn send_as(uid: u32, kernel: &Device, opcode: u32, unique: u64, payload: &[u8]) {
    let len = (size_of::<InHeader>() + payload.len()) as u32;
    let header = InHeader {
        len,
        opcode,
        unique,
        uid,
        ..Default::default()
    };
    kernel.send(header.as_bytes(), payload, &[]).unwrap();
}

fn receive(kernel: &Device) -> (OutHeader, Vec<u8>) {
    let mut buffer = [0; 4096];
    let Incoming::Request(size) = kernel.receive(&mut buffer).unwrap() else {
        panic!("no answer")
    };
    let (header, _) = OutHeader::read_from_prefix(&buffer).unwrap();
    assert_eq!(header.len as usize, size);
    (header, buffer[16..size].to_vec())
}

#[test]
fn every_kind_of_reply_reaches_the_kernel_and_garbage_ends_nothing() {
    let (device, kernel, socket) = pair();
    let scheduler = Scheduler::builder().external_workers(1).start().unwrap();
    let shared = shared(&scheduler, Park::Needed);
    let reader = Reader {
        place: None,
        ..reader(device, &shared)
    };
    let thread = thread::spawn(move || reader.run());
    converse(&kernel);
    // A datagram of no bytes is the end of the mount.
    socket.send(&[]).unwrap();
    thread.join().unwrap().unwrap();
    shared.workers.close();
}

#[test]
fn every_kind_of_reply_can_be_sent_by_a_task() {
    for park in [Park::Needed, Park::Every] {
        let (device, kernel, socket) = pair();
        let scheduler = Scheduler::builder().external_workers(1).start().unwrap();
        let shared = shared(&scheduler, park);
        let reader = reader(device, &shared);
        let thread = thread::spawn(move || reader.run());
        converse(&kernel);
        socket.send(&[]).unwrap();
        thread.join().unwrap().unwrap();
        shared.workers.close();
        let tasks = scheduler.stats().cores[0].switches;
        assert_eq!(tasks > 0, park == Park::Every, "{park:?}: {tasks} tasks");
        assert_eq!(scheduler.tasks(), 0);
    }
}

fn converse(kernel: &Device) {
    send(kernel, 1, 10, b"abc");
    let (header, body) = receive(kernel);
    assert_eq!(
        (header.unique, header.error, &body[..]),
        (10, 0, &b"cba"[..])
    );

    kernel.send(b"garbage", &[], &[]).unwrap();
    send(kernel, 17, 11, b"");
    send(kernel, 5, 12, b"");
    let (header, body) = receive(kernel);
    assert_eq!(
        (header.unique, header.error, body.len()),
        (12, -libc::ENOENT, 0)
    );

    send(kernel, 38, 13, b"");
    let (header, body) = receive(kernel);
    assert_eq!((header.unique, &body[..]), (13, &77u64.to_ne_bytes()[..]));
}

/// Replies with the name of the thread, to 2 once the gate is open.
struct Named {
    is_open: Arc<AtomicBool>,
}

impl Service for Named {
    fn handle(&self, request: &RawRequest<'_>, out: &mut [u8], attempt: Attempt) -> Handled {
        assert!(attempt.may_block);
        while request.header.opcode == 2 && !self.is_open.load(SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        let thread = thread::current();
        let name = thread.name().unwrap().as_bytes();
        out[..name.len()].copy_from_slice(name);
        let span = Span::since(Instant::now());
        let outcome = Outcome::Done(Ok(name.len()));
        Handled { outcome, span }
    }

    fn may_block(&self, _: &InHeader) -> bool {
        true
    }

    fn awaits_returns(&self) -> bool {
        false
    }

    fn tenant(&self, header: &InHeader) -> TenantId {
        TenantId::User(header.uid)
    }

    fn fetch(&self, _: &Missing) -> Result<(), Errno> {
        unreachable!("nothing is missed")
    }
}

/// Starts two readers that make calls by themselves, on one core.
fn start_callers<S: Service>(
    device: &UnixDatagram,
    shared: &Arc<SessionShared<S>>,
    have_queues: [bool; 2],
) -> [thread::JoinHandle<io::Result<()>>; 2] {
    let admission = Arc::new(ReaderAdmission::of_callers(&[0, 0]));
    [0, 1].map(|number| {
        let reader = Reader {
            device: Arc::new(Device::from_fd(OwnedFd::from(device.try_clone().unwrap()))),
            shared: Arc::clone(shared),
            max_write: 4096,
            setxattr_ext: true,
            place: Some(ReaderPlace {
                cpu: 0,
                admission: Arc::clone(&admission),
                number,
                shares: false,
                has_queue: have_queues[number],
            }),
        };
        let thread = thread::Builder::new().name("reader".into());
        thread.spawn(move || reader.run()).unwrap()
    })
}

/// Tells each reader that the mount is gone, and waits for it.
fn end_callers(kernel: &UnixDatagram, readers: [thread::JoinHandle<io::Result<()>>; 2]) {
    for _ in &readers {
        kernel.send(&[]).unwrap();
    }
    for reader in readers {
        reader.join().unwrap().unwrap();
    }
}

/// A reader makes calls by itself as long as another one reads; the last one hands them over, so
/// that no number of calls that do not end stops the next request.
#[test]
fn a_reader_makes_a_call_where_another_one_reads() {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let kernel = Device::from_fd(OwnedFd::from(theirs.try_clone().unwrap()));
    let scheduler = Scheduler::builder().external_workers(1).start().unwrap();
    let is_open = Arc::new(AtomicBool::new(false));
    let service = Named {
        is_open: Arc::clone(&is_open),
    };
    let shared = serving(service, &scheduler, Park::Needed);
    let readers = start_callers(&ours, &shared, [true, false]);
    let both_read = || {
        let began = Instant::now();
        loop {
            send(&kernel, 1, 30, b"");
            let name = receive(&kernel).1;
            // The one that has replied is back soon.
            thread::sleep(Duration::from_millis(20));
            if name == b"reader" {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{name:?}");
        }
    };
    both_read();
    for unique in 1..=8 {
        send(&kernel, 2, unique, b"");
    }
    for unique in 10..20 {
        send(&kernel, 1, unique, b"");
        let (header, name) = receive(&kernel);
        assert_eq!(header.unique, unique);
        assert_eq!(name, b"hearth-call", "the last reader goes on reading");
    }
    is_open.store(true, SeqCst);
    let names: Vec<Vec<u8>> = (1..=8).map(|_| receive(&kernel).1).collect();
    let calls = names.iter().filter(|&name| name == b"hearth-call").count();
    assert_eq!((calls, names.len()), (7, 8), "one reader was in a call");
    both_read();
    end_callers(&theirs, readers);
    shared.workers.close();
}

/// Waits for its turn with each request first.
struct Turns;

impl Service for Turns {
    fn handle(&self, _: &RawRequest<'_>, _: &mut [u8], attempt: Attempt) -> Handled {
        let outcome = match attempt.since {
            None => Outcome::Wait(WaitFor::Turn),
            Some(_) => Outcome::Done(Ok(0)),
        };
        let span = Span::since(Instant::now());
        Handled { outcome, span }
    }

    fn may_block(&self, _: &InHeader) -> bool {
        true
    }

    fn awaits_returns(&self) -> bool {
        false
    }

    fn tenant(&self, header: &InHeader) -> TenantId {
        TenantId::User(header.uid)
    }

    fn fetch(&self, _: &Missing) -> Result<(), Errno> {
        unreachable!("nothing is missed")
    }
}

/// Once, a request that a thread had begun and a task went on with was counted for both.
#[test]
fn a_request_that_a_task_goes_on_with_is_counted_once() {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let kernel = Device::from_fd(OwnedFd::from(theirs.try_clone().unwrap()));
    let scheduler = Scheduler::builder().workers(1).start().unwrap();
    let shared = serving(Turns, &scheduler, Park::Needed);
    let readers = start_callers(&ours, &shared, [false, false]);
    const REQUESTS: u64 = 40;
    for unique in 1..=REQUESTS {
        send_as(7, &kernel, 1, unique, b"");
        assert_eq!(receive(&kernel).0.unique, unique);
    }
    end_callers(&theirs, readers);
    shared.workers.close();
    let tenant = TenantId::User(7).number();
    let rows = scheduler.stats().tenants;
    let row = rows.iter().find(|row| row.id == tenant).unwrap();
    let counts = [row.service.served, row.given, row.tasks];
    assert_eq!(counts.iter().sum::<u64>(), REQUESTS, "{counts:?}");
}
