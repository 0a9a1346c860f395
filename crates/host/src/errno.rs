//! Errors of system calls as errors of operations.

use hearth::{Errno, Result};

/// The result of a system call, to be passed on.
pub trait PassOn<T> {
    /// Its value, or its error as an operation returns it.
    fn pass_on(self) -> Result<T>;
}

impl<T> PassOn<T> for rustix::io::Result<T> {
    fn pass_on(self) -> Result<T> {
        self.map_err(|error| Errno(error.raw_os_error()))
    }
}
