//! Threads that read `/dev/fuse`.

use super::buffer::Buffer;
use super::cpu;
use super::device::{Device, Incoming};
use super::seats::Seats;
use crate::request::RawRequest;
use crate::service::{Answer, Service, Small};
use crate::wire::{InHeader, Opcode, READ_OVERHEAD, WriteIn};
use crate::workers::Workers;
use hearth::Errno;
use hearth_sync::primitive::Arc;
use std::io;
use zerocopy::FromBytes;

/// Room for an answer to anything but READ and listings, which have the size that the kernel gave
/// them.
const SMALL_ANSWER: usize = 1 << 17;
/// Bytes of a WRITE before its data.
const WRITE_HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// What one reading thread needs.
pub(crate) struct Reader<S> {
    pub device: Arc<Device>,
    pub service: Arc<S>,
    pub workers: Arc<Workers>,
    /// Largest data of a request in bytes.
    pub max_write: usize,
    pub setxattr_ext: bool,
    /// The CPU to stay on, and the place among the readers of the others.
    pub place: Option<Place>,
}

/// A reader's place among several.
pub(crate) struct Place {
    pub cpu: usize,
    pub seats: Arc<Seats>,
    pub number: usize,
}

impl<S: Service> Reader<S> {
    /// Reads and answers until the mount is gone.
    ///
    /// # Errors
    /// What reading answers when the mount is still there.
    pub fn run(self) -> io::Result<()> {
        let mut request = Buffer::new(self.max_write + READ_OVERHEAD, WRITE_HEAD);
        let mut answer = Buffer::new(self.max_write.max(SMALL_ANSWER), 0);
        let (request, answer) = (request.bytes(), answer.bytes());
        match &self.place {
            None => self.read_alone(request, answer),
            Some(place) => {
                cpu::pin(place.cpu);
                // However this reader ends: the others, and the lookout, must not wait for ever.
                let _closed = CloseSeats(&place.seats);
                self.read_in_turns(place, request, answer)
            }
        }
    }

    fn read_alone(&self, request: &mut [u8], answer: &mut [u8]) -> io::Result<()> {
        loop {
            match self.device.receive(request)? {
                Incoming::Request(size) => self.serve(&request[..size], answer),
                Incoming::Nothing => {}
                Incoming::End => return Ok(()),
            }
        }
    }

    /// Waits in the kernel while it has a seat, for a seat otherwise.
    fn read_in_turns(
        &self,
        place: &Place,
        request: &mut [u8],
        answer: &mut [u8],
    ) -> io::Result<()> {
        loop {
            place.seats.wait(place.number);
            let size = match self.device.receive(request)? {
                Incoming::Request(size) => size,
                Incoming::Nothing => continue,
                Incoming::End => return Ok(()),
            };
            let request = &request[..size];
            if let Ok((header, _)) = InHeader::read_from_prefix(request) {
                let is_write = header.opcode == Opcode::Write as u32;
                let is_written_back = is_write && header.pid == 0;
                place
                    .seats
                    .serves(place.number, header.pid, is_written_back);
            }
            self.serve(request, answer);
        }
    }

    fn serve(&self, request: &[u8], out: &mut [u8]) {
        let Some(raw) = RawRequest::from_buffer(request, self.setxattr_ext) else {
            eprintln!(
                "hearth: {} bytes from /dev/fuse are no request",
                request.len()
            );
            return;
        };
        let unique = raw.header.unique;
        let result = match self.service.handle(&raw, out) {
            Answer::Reply(size) => Ok(&out[..size]),
            Answer::Error(errno) => Err(errno),
            Answer::Silent => return,
            Answer::Later(later) => {
                let device = Arc::clone(&self.device);
                let finish = Box::new(move |result: Result<Small, Errno>| {
                    let result = result.as_ref().map(Small::bytes).map_err(|&errno| errno);
                    report(unique, device.answer(unique, result));
                });
                return self.workers.submit(later, finish);
            }
        };
        report(unique, self.device.answer(unique, result));
    }
}

/// A reader that ends lets the others see the end.
struct CloseSeats<'a>(&'a Seats);

impl Drop for CloseSeats<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// An answer that the kernel refuses leaves its request waiting: worth a line.
fn report(unique: u64, result: io::Result<()>) {
    if let Err(error) = result
        && !matches!(
            error.raw_os_error(),
            Some(libc::ENODEV | libc::ECONNABORTED | libc::ENOTCONN)
        )
    {
        eprintln!("hearth: answering request {unique}: {error}");
    }
}

#[cfg(test)]
#[path = "dev_tests.rs"]
mod tests;
