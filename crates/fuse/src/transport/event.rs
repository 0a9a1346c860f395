//! An event that wakes a thread which waits in the kernel.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Set or not.
#[derive(Debug)]
pub(super) struct Event(OwnedFd);

impl Event {
    /// Not set.
    pub fn new() -> io::Result<Event> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        Ok(Event(unsafe { OwnedFd::from_raw_fd(event) }))
    }

    /// The descriptor to wait for: it can be read while the event is set.
    pub fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Sets it.
    pub fn set(&self) {
        let one = 1u64;
        // SAFETY: eight bytes are read from `one`. An eventfd takes them unless its counter is
        // full, and then the thread is being woken already.
        unsafe { libc::write(self.raw(), (&raw const one).cast(), 8) };
    }

    /// Waits until it is set, or for `limit`.
    pub fn wait(&self, limit: Option<Duration>) {
        let mut fd = libc::pollfd {
            fd: self.raw(),
            events: libc::POLLIN,
            revents: 0,
        };
        let ms = limit.map_or(-1, |limit| limit.as_millis().clamp(1, 60_000) as i32);
        // SAFETY: one structure that lives through the call.
        unsafe { libc::poll(&raw mut fd, 1, ms) };
    }

    /// Resets it.
    pub fn reset(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes are written to `count`; an event that is not set gives EAGAIN.
        unsafe { libc::read(self.raw(), (&raw mut count).cast(), 8) };
    }
}

/// Whether a descriptor has something to read, now.
pub(crate) fn is_readable(source: RawFd) -> bool {
    let mut fd = libc::pollfd {
        fd: source,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure that lives through the call, which does not wait.
    unsafe { libc::poll(&raw mut fd, 1, 0) != 0 }
}
