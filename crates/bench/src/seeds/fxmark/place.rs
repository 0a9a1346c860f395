//! Where the files are, and making them.

use crate::activity::{must, path};
use crate::target::{Client, Handle};
use std::ffi::{CStr, CString};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Bytes of the region of a shared file that one task has for itself.
pub const REGION: u64 = 8 << 20;
/// What files are full of.
pub const BYTE: u8 = 7;

/// A file of the task in the common directory.
pub fn private_file(task: usize) -> CString {
    path(format!("/file-{task}"))
}

/// A directory of the task.
pub fn private_directory(task: usize) -> CString {
    path(format!("/private-{task}"))
}

/// A file of the task in its directory.
pub fn file_in_private_directory(task: usize) -> CString {
    path(format!("/private-{task}/file"))
}

/// The file that all use.
pub fn shared_file() -> CString {
    path("/shared-file")
}

/// The directory that all use.
pub fn shared_directory() -> CString {
    path("/shared")
}

/// Makes an empty file.
///
/// # Errors
/// The target refuses.
pub fn make(client: &dyn Client, file: &CStr) -> Result<(), String> {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
    client.close(client.open(file, flags)?)
}

/// Makes a file of so many bytes.
///
/// # Errors
/// The target refuses.
pub fn fill(client: &dyn Client, file: &CStr, bytes: u64) -> Result<(), String> {
    let handle = client.open(file, libc::O_CREAT | libc::O_EXCL | libc::O_RDWR)?;
    fill_open(client, handle, bytes)?;
    client.close(handle)
}

/// Writes so many bytes to a file that is empty.
///
/// # Errors
/// The target refuses.
pub fn fill_open(client: &dyn Client, file: Handle, bytes: u64) -> Result<(), String> {
    let block = vec![BYTE; bytes.min(1 << 20) as usize];
    for at in (0..bytes).step_by(block.len()) {
        let part = &block[..block.len().min((bytes - at) as usize)];
        let done = client.write(file, part, at)?;
        must(done == part.len(), || format!("{done} bytes at {at}"))?;
    }
    Ok(())
}

/// Makes an empty file and the directories that lead to it, those that are missing.
///
/// # Errors
/// The target refuses.
pub fn make_with_directories(client: &dyn Client, file: &CStr) -> Result<(), String> {
    let bytes = file.to_bytes();
    for (at, _) in bytes
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, byte)| **byte == b'/')
    {
        let dir = path(&bytes[..at]);
        if !client.stat(&dir) {
            client.mkdir(&dir)?;
        }
    }
    make(client, file)
}
