//! Errors of system calls as errors of operations.

use hearth::{Errno, Result};

/// The result of a system call, to be passed on.
pub trait PassOn<T> {
    /// Its value, or its error as an operation returns it.
    fn pass_on(self) -> Result<T>;
}

/// What has become of a call that changes something. The outer error: nothing was done. The inner
/// one: it was done, and what came of it cannot be told.
pub type Done<T> = Result<Result<T>>;

impl<T> PassOn<T> for rustix::io::Result<T> {
    fn pass_on(self) -> Result<T> {
        self.map_err(|error| Errno(error.raw_os_error()))
    }
}
