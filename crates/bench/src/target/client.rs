//! One user of a target.

use super::entries::Entries;
use std::ffi::CStr;

/// An open file of a [`Client`].
pub type Handle = i32;

/// The fields of `stat` that benchmarks look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub ino: u64,
    pub size: u64,
    pub links: u32,
    /// Permissions, without the type.
    pub mode: u16,
    pub is_dir: bool,
}

/// One user of a [`super::Target`]: the calls of Linux.
///
/// A path that begins with `/` begins in the target's root, another one in the client's working
/// directory, which is that root at first. An error is the message of the call that failed: a
/// benchmark does not go on after one.
pub trait Client {
    /// Whether `path` is there: `stat(2)`.
    fn stat(&self, path: &CStr) -> bool;
    /// `stat(2)`.
    fn about(&self, path: &CStr) -> Result<About, String>;
    /// `open(2)` with mode 0644.
    fn open(&self, path: &CStr, flags: i32) -> Result<Handle, String>;
    /// Whether `open(2)` fails. A file that it opens is closed again.
    fn refuses(&self, path: &CStr, flags: i32) -> bool;
    /// `close(2)`.
    fn close(&self, file: Handle) -> Result<(), String>;
    /// `pread(2)`.
    fn read(&self, file: Handle, out: &mut [u8], off: u64) -> Result<usize, String>;
    /// `pwrite(2)`.
    fn write(&self, file: Handle, data: &[u8], off: u64) -> Result<usize, String>;
    /// `read(2)`: from the file's position.
    fn read_next(&self, file: Handle, out: &mut [u8]) -> Result<usize, String>;
    /// `write(2)`: at the file's position, or the end with `O_APPEND`.
    fn write_next(&self, file: Handle, data: &[u8]) -> Result<usize, String>;
    /// `ftruncate(2)`.
    fn truncate(&self, file: Handle, size: u64) -> Result<(), String>;
    /// `fsync(2)`.
    fn sync(&self, file: Handle) -> Result<(), String>;
    /// `fcntl(F_SETLK)`: takes byte `at` for writing, or gives it back; `Err` if it is taken.
    fn lock(&self, file: Handle, at: u64, is_taken: bool) -> Result<(), String>;
    /// `unlink(2)`.
    fn unlink(&self, path: &CStr) -> Result<(), String>;
    /// `rename(2)`.
    fn rename(&self, old: &CStr, new: &CStr) -> Result<(), String>;
    /// `chmod(2)`.
    fn chmod(&self, path: &CStr, mode: u16) -> Result<(), String>;
    /// `mkdir(2)` with mode 0755.
    fn mkdir(&self, path: &CStr) -> Result<(), String>;
    /// `rmdir(2)`.
    fn rmdir(&self, path: &CStr) -> Result<(), String>;
    /// The number of entries of a directory without `.` and `..`.
    fn list(&self, path: &CStr) -> Result<usize, String>;
    /// The entries of a directory without `.` and `..`, in the order of the directory.
    fn entries(&self, path: &CStr) -> Result<Entries, String>;
    /// `chdir(2)`. Threads of one process share their working directory. So each keeps the
    /// directory that it names here open, and the `*at` calls resolve its relative paths there.
    fn chdir(&self, path: &CStr) -> Result<(), String>;
    /// Allows the client this many descriptors (`RLIMIT_NOFILE`), or as many as the system allows.
    /// Returns the number allowed.
    fn allow_open(&self, descriptors: usize) -> Result<usize, String>;
    /// Ends the client. All of its files are closed at once, as at the end of a process. For one of
    /// several threads of a process, only that thread's working directory is closed.
    fn end(self: Box<Self>);
}
