//! Opening control files that a tree of the host may hide: whoever may write at its top could put
//! files, or links to those of another mount, in the place of any part of their path.

use crate::patience;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The text of the file `name` below `.hearth`.
///
/// # Errors
/// `NotFound` if it is not there, or is a file of the tree.
pub fn read(mount: &Path, name: &str) -> Result<String> {
    let mut text = String::new();
    open_to_read(mount, name)?.read_to_string(&mut text)?;
    Ok(text)
}

/// The file `name` below `.hearth`.
///
/// # Errors
/// As [`read`].
pub fn open_to_read(mount: &Path, name: &str) -> Result<File> {
    opened(mount, name, OFlags::RDONLY)
}

/// The file `name` below `.hearth`, for a question or a value, and what is answered.
///
/// # Errors
/// As [`read`]; `UnexpectedEof` if it is empty, as all of them are with `no_open`: what is written
/// to it then does nothing and may seem to have been done.
pub fn open_to_ask(mount: &Path, name: &str) -> Result<File> {
    let file = opened(mount, name, OFlags::RDWR)?;
    match file.read_at(&mut [0], 0)? {
        0 => Err(Error::from(ErrorKind::UnexpectedEof)),
        _ => Ok(file),
    }
}

/// Writes a value to the file `name` below `.hearth`.
///
/// # Errors
/// As [`open_to_ask`], and that the value is refused.
pub fn write(mount: &Path, name: &str, value: &str) -> Result<()> {
    open_to_ask(mount, name)?.write_all(value.as_bytes())
}

/// Nothing is made and nothing emptied before it is known which file it is. No part of the path is
/// a link or lies on another filesystem than `mount`: what is opened is of that volume.
fn opened(mount: &Path, name: &str, access: OFlags) -> Result<File> {
    patience::watch(mount);
    let only = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = open(mount, only, Mode::empty())?;
    let device = fstat(&directory)?.st_dev;
    let parts = Path::new(".hearth").join(name);
    let mut parts = parts.iter().peekable();
    while let Some(part) = parts.next() {
        let flags = match parts.peek() {
            Some(_) => only,
            None => access | OFlags::CLOEXEC | OFlags::NONBLOCK,
        };
        directory = match openat(&directory, part, flags | OFlags::NOFOLLOW, Mode::empty()) {
            // A link: no control file is one.
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(absent()),
            next => own(next?, device)?,
        };
    }
    Ok(directory.into())
}

/// The file, if it is a control file of this device.
fn own(file: OwnedFd, device: u64) -> Result<OwnedFd> {
    let stat = fstat(&file)?;
    // In unit tests a plain tree stands for the mount of an older daemon.
    let is_control = hearth::is_control(stat.st_ino) || cfg!(test);
    match is_control && stat.st_dev == device {
        true => Ok(file),
        false => Err(absent()),
    }
}

fn absent() -> Error {
    Error::from(ErrorKind::NotFound)
}
