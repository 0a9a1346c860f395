//! What is measured, behind one trait: the library in process, or a directory of the host.

mod host;
mod library;

pub use host::HostDir;
pub use library::{Library, Sharing};

use std::ffi::CStr;

/// A filesystem, or a part of one, that tasks can use at once.
pub trait Target: Sync {
    /// A user of it, for the thread that calls. Absolute paths are paths inside the target.
    fn client(&self) -> Box<dyn Client + '_>;
}

/// A target together with what goes away with it.
pub trait Fresh {
    /// The target.
    fn target(&self) -> &dyn Target;
}

impl Fresh for Library {
    fn target(&self) -> &dyn Target {
        self
    }
}

impl Fresh for Box<dyn Fresh> {
    fn target(&self) -> &dyn Target {
        (**self).target()
    }
}

/// An open file of a [`Client`].
pub type Handle = i32;

/// One user of a [`Target`]; the calls of Linux. Paths begin with `/`.
///
/// An error is the message of the call that failed: a benchmark does not go on after one.
pub trait Client {
    /// Whether `path` is there.
    fn stat(&self, path: &CStr) -> bool;
    /// `open(2)` with mode 0644.
    fn open(&self, path: &CStr, flags: i32) -> Result<Handle, String>;
    /// `close(2)`.
    fn close(&self, file: Handle) -> Result<(), String>;
    /// `pread(2)`.
    fn read(&self, file: Handle, out: &mut [u8], off: u64) -> Result<usize, String>;
    /// `pwrite(2)`.
    fn write(&self, file: Handle, data: &[u8], off: u64) -> Result<usize, String>;
    /// `unlink(2)`.
    fn unlink(&self, path: &CStr) -> Result<(), String>;
    /// `mkdir(2)` with mode 0755.
    fn mkdir(&self, path: &CStr) -> Result<(), String>;
    /// How many entries a directory has, `.` and `..` left out.
    fn list(&self, path: &CStr) -> Result<usize, String>;
}

#[cfg(test)]
mod tests;
