//! Late answers on their way to the queue thread, the only one that may submit to its ring.

use crate::service::Small;
use hearth::Errno;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

lock_class!(LettersLock = "fuse.mailbox", 874);

/// Answers, each with the index of its entry.
type Letters = Vec<(usize, Result<Small, Errno>)>;

/// Answers of workers, and the event that wakes the queue thread for them.
#[derive(Debug)]
pub(super) struct Mailbox {
    letters: Lock<LettersLock, Letters>,
    event: OwnedFd,
}

impl Mailbox {
    /// An empty one.
    pub fn new() -> io::Result<Mailbox> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(Mailbox {
            letters: Lock::new(Vec::new()),
            event,
        })
    }

    /// The event to wait for.
    pub fn event(&self) -> i32 {
        self.event.as_raw_fd()
    }

    /// Leaves the answer for entry `index` and wakes the queue thread.
    pub fn put(&self, index: usize, result: Result<Small, Errno>) {
        self.letters.lock().push((index, result));
        let one = 1u64;
        // SAFETY: eight bytes are read from `one`. An eventfd takes them unless its counter is
        // full, and then the thread is being woken already.
        unsafe { libc::write(self.event(), (&raw const one).cast(), 8) };
    }

    /// Takes all answers. The event is reset first: a letter that comes in between sets it again.
    pub fn take(&self) -> Letters {
        let mut count = 0u64;
        // SAFETY: eight bytes are written to `count`; an event that is not set answers EAGAIN.
        unsafe { libc::read(self.event(), (&raw mut count).cast(), 8) };
        std::mem::take(&mut *self.letters.lock())
    }
}
