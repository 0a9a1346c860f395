//! A ring of this thread, which enters it by a registered number.
//!
//! By its descriptor the kernel would take and give back a reference with each call: some two
//! in a hundred of what a small request costs. The crate `io-uring` has numbers for a `Submitter`,
//! which borrows the ring, so that both cannot be kept together.

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue::Entry128};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Submissions that a ring holds; more are submitted in between.
const SIZE: u32 = 64;
/// Completions that a ring holds; the kernel keeps what does not fit.
pub(super) const COMPLETIONS: u32 = 1024;

/// `IORING_ENTER_GETEVENTS` and `IORING_ENTER_REGISTERED_RING`; io_uring_enter(2).
const GET_EVENTS: u32 = 1;
const BY_NUMBER: u32 = 16;
/// `IORING_REGISTER_RING_FDS`, `IORING_UNREGISTER_RING_FDS`; io_uring_register(2).
const REGISTER: u32 = 20;
const UNREGISTER: u32 = 21;

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct Registration {
    /// The number; all ones for any that is free.
    number: u32,
    reserved: u32,
    descriptor: u64,
}

/// A ring whose thread alone submits to it. Must be dropped by that thread.
pub(super) struct Ring {
    ring: IoUring<Entry128, cqueue::Entry>,
    number: u32,
    /// The number is the thread's.
    stays: PhantomData<*const ()>,
}

impl Ring {
    /// A ring of the calling thread.
    ///
    /// # Errors
    /// Errors of io_uring: `ENOSYS`, `EPERM` where it is forbidden, `ENOMEM`.
    pub fn new() -> io::Result<Ring> {
        let ring = IoUring::<Entry128, cqueue::Entry>::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETIONS)
            .build(SIZE)?;
        let number = register(ring.as_raw_fd(), REGISTER, u32::MAX)?;
        Ok(Ring {
            ring,
            number,
            stays: PhantomData,
        })
    }

    /// The ring's descriptor: readable while a completion, or what leads to one, waits.
    pub fn raw(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Makes `file` the first one of the ring.
    ///
    /// # Errors
    /// Errors of io_uring.
    pub fn register_file(&self, file: RawFd) -> io::Result<()> {
        self.ring.submitter().register_files(&[file])
    }

    /// Hands over what was pushed.
    ///
    /// # Errors
    /// The kernel's error, unless the call may succeed the next time.
    pub fn submit(&mut self) -> io::Result<()> {
        self.enter(0, 0)
    }

    /// Hands over what was pushed and waits for a completion, if there is none.
    ///
    /// # Errors
    /// As [`Ring::submit`].
    pub fn wait(&mut self) -> io::Result<()> {
        self.enter(1, GET_EVENTS)
    }

    /// [`Ring::wait`] for `limit` at most.
    ///
    /// # Errors
    /// As [`Ring::submit`].
    pub fn wait_for(&mut self, limit: Duration) -> io::Result<()> {
        let limit = Timespec::from(limit);
        let submitter = self.ring.submitter();
        let done = submitter.submit_with_args(1, &SubmitArgs::new().timespec(&limit));
        unless_passing(done.map(drop))
    }

    /// User data and result of what has completed.
    pub fn completions(&mut self) -> impl Iterator<Item = (u64, i32)> {
        let completed = self.ring.completion();
        completed.map(|cqe| (cqe.user_data(), cqe.result()))
    }

    /// Adds a submission.
    ///
    /// # Errors
    /// As [`Ring::submit`], which makes room if there is none.
    ///
    /// # Safety
    /// What the entry points to is there until it has completed.
    pub unsafe fn push(&mut self, entry: &Entry128) -> io::Result<()> {
        // SAFETY: the caller's.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit()?;
        }
        Ok(())
    }

    fn enter(&mut self, wanted: u32, flags: u32) -> io::Result<()> {
        // What was pushed is told to the kernel when the handle for pushing goes, as it does here.
        let pushed = self.ring.submission().len() as u32;
        // SAFETY: no argument is a pointer.
        let done = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.number,
                pushed,
                wanted,
                flags | BY_NUMBER,
                0usize,
                0usize,
            )
        };
        unless_passing(match done {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The number would keep the ring, and what it may write to, until the thread ends.
        let _ = register(self.ring.as_raw_fd(), UNREGISTER, self.number);
    }
}

/// Registers a ring with the calling thread, or takes that back; the number.
fn register(ring: RawFd, operation: u32, number: u32) -> io::Result<u32> {
    let mut registration = Registration {
        number,
        reserved: 0,
        descriptor: match operation {
            REGISTER => ring as u64,
            _ => 0,
        },
    };
    // SAFETY: one registration, which is read and written to.
    let done = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring,
            operation,
            &raw mut registration,
            1,
        )
    };
    match done {
        1 => Ok(registration.number),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whatever may not happen again is no error.
fn unless_passing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error)
            if !matches!(
                error.raw_os_error(),
                Some(libc::EINTR | libc::EBUSY | libc::EAGAIN | libc::ETIME)
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::is_readable;
    use super::*;
    use io_uring::opcode;

    fn nothing(data: u64) -> Entry128 {
        Entry128::from(opcode::Nop::new().build()).user_data(data)
    }

    #[test]
    fn more_is_pushed_than_fits_and_all_of_it_completes_in_order() {
        let mut ring = Ring::new().unwrap();
        let all = 0..u64::from(SIZE) * 3 + 1;
        for data in all.clone() {
            // SAFETY: it points to nothing.
            unsafe { ring.push(&nothing(data)) }.unwrap();
        }
        ring.wait().unwrap();
        let expected: Vec<_> = all.map(|data| (data, 0)).collect();
        assert_eq!(ring.completions().collect::<Vec<_>>(), expected);
        // Nothing comes, and no error of that.
        ring.wait_for(Duration::from_millis(1)).unwrap();
        ring.submit().unwrap();
        assert_eq!(ring.completions().count(), 0);
    }

    /// A thread has sixteen numbers.
    #[test]
    fn a_ring_gives_its_number_back() {
        for _ in 0..40 {
            drop(Ring::new().unwrap());
        }
    }

    #[test]
    fn a_ring_is_readable_while_something_completed() {
        let mut ring = Ring::new().unwrap();
        assert!(!is_readable(ring.raw()));
        // SAFETY: it points to nothing.
        unsafe { ring.push(&nothing(7)) }.unwrap();
        ring.submit().unwrap();
        assert!(is_readable(ring.raw()));
        assert_eq!(ring.completions().collect::<Vec<_>>(), [(7, 0)]);
        assert!(!is_readable(ring.raw()));
    }
}
