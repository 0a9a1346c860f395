//! Threads that read `/dev/fuse`.

use super::cpu;
use super::device::{Device, Incoming};
use crate::request::RawRequest;
use crate::service::{Answer, Service, Small};
use crate::wire::READ_OVERHEAD;
use crate::workers::Workers;
use hearth::Errno;
use hearth_sync::primitive::Arc;
use std::io;

/// Room for an answer to anything but READ and listings, which have the size that the kernel gave
/// them.
const SMALL_ANSWER: usize = 1 << 17;

/// What one reading thread needs.
pub(crate) struct Reader<S> {
    pub device: Arc<Device>,
    pub service: Arc<S>,
    pub workers: Arc<Workers>,
    /// Largest data of a request in bytes.
    pub max_write: usize,
    pub setxattr_ext: bool,
    /// The CPU to stay on.
    pub cpu: Option<usize>,
}

impl<S: Service> Reader<S> {
    /// Reads and answers until the mount is gone.
    ///
    /// # Errors
    /// What reading answers when the mount is still there.
    pub fn run(self) -> io::Result<()> {
        if let Some(cpu) = self.cpu {
            cpu::pin(cpu);
        }
        let mut request = vec![0; self.max_write + READ_OVERHEAD];
        let mut answer = vec![0; self.max_write.max(SMALL_ANSWER)];
        loop {
            match self.device.receive(&mut request)? {
                Incoming::Request(size) => self.serve(&request[..size], &mut answer),
                Incoming::Nothing => {}
                Incoming::End => return Ok(()),
            }
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
