//! A small file that a user names: a passphrase, a configuration.

use rustix::fs::{OFlags, fcntl_setfl, fstatfs};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// `f_type` of pipes without a name, such as a shell makes.
const PIPES: u64 = 0x5049_5045;

/// What there is at a path.
pub enum GivenFile {
    /// The contents.
    Whole(Vec<u8>),
    /// More than was asked for, as a device may have without an end.
    TooLong,
    /// A pipe with a name: whoever opens it waits until somebody writes, for ever if nobody does.
    NamedPipe,
}

impl GivenFile {
    /// Reads a file of at most `most` bytes. A pipe without a name, as `<(COMMAND)` makes one, has
    /// its writer and is read to its end.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub fn read(path: &Path, most: usize) -> io::Result<GivenFile> {
        let nonblock = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nonblock)
            .open(path)?;
        if is_named_pipe(&file)? {
            return Ok(GivenFile::NamedPipe);
        }
        fcntl_setfl(&file, OFlags::empty())?;
        // All at once: a buffer that grows would leave parts of a secret behind.
        let mut bytes = Vec::with_capacity(most + 1);
        file.take(most as u64 + 1).read_to_end(&mut bytes)?;
        match bytes.len() > most {
            true => Ok(GivenFile::TooLong),
            false => Ok(GivenFile::Whole(bytes)),
        }
    }
}

fn is_named_pipe(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.file_type().is_fifo() && fstatfs(file)?.f_type as u64 != PIPES)
}
