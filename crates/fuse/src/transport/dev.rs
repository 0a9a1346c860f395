//! Threads that read `/dev/fuse`: one beside rings, or several ([`super::read_loop`]).

use super::buffer::Buffer;
use super::dev_request::send;
use super::device::Incoming;
use super::event::Event;
use super::read_loop::{CloseAdmission, ReadLoop};
use super::reader::{Reader, ReaderPlace};
use crate::placement::cpu;
use crate::wait::outcome::{Attempt, Outcome, WaitFor};
use crate::wait::request_queue::RequestQueue;
use crate::wait::request_task::{self, OpenTask};
use crate::wait::service::Service;
use crate::wire::{InHeader, READ_OVERHEAD, WriteIn};
use hearth::sched::Spec;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use hearth_sync::primitive::{Arc, thread};
use std::io;
use std::time::Duration;

/// Bytes of a WRITE before its data.
const WRITE_HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();

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
        let queue = self.queue(place, &event)?;
        let mut loop_ = ReadLoop::new(&self, place, queue, event, [buffer(), buffer()], reply);
        let result = loop_.read();
        loop_.close();
        result
    }

    fn queue(&self, place: &ReaderPlace, event: &Arc<Event>) -> io::Result<RequestQueue<S>> {
        if !place.has_queue {
            return Ok(RequestQueue::without_run_queue(&self.shared));
        }
        let bell = Arc::clone(event);
        let unpark = Box::new(move || bell.set());
        // A thread that makes calls has locks of the host's filesystems, for which others wait.
        let source = (!place.admission.has_callers()).then(|| self.device.raw());
        let queue = RequestQueue::new(&self.shared, source, unpark);
        queue.ok_or_else(|| io::Error::other("the volume has no seat left"))
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
}

#[cfg(test)]
#[path = "dev_tests.rs"]
mod tests;
