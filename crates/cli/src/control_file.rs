//! Opening control files that a tree of the host may hide: whoever may write at its top could put
//! a file, or a link to one, in their place.

use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
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

/// The file `name` below `.hearth`, for a question and its answer.
///
/// # Errors
/// As [`read`].
pub fn open_to_ask(mount: &Path, name: &str) -> Result<File> {
    opened(mount, name, OFlags::RDWR)
}

/// Writes a value to the file `name` below `.hearth`.
///
/// # Errors
/// As [`read`], and that the value is refused.
pub fn write(mount: &Path, name: &str, value: &str) -> Result<()> {
    opened(mount, name, OFlags::WRONLY)?.write_all(value.as_bytes())
}

/// Nothing is made and nothing emptied before it is known which file it is.
fn opened(mount: &Path, name: &str, access: OFlags) -> Result<File> {
    let path = mount.join(".hearth").join(name);
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match open(&path, flags, Mode::empty()) {
        // A link: no control file is one.
        Err(Errno::LOOP) => return Err(Error::from(ErrorKind::NotFound)),
        file => file?,
    };
    // In unit tests a plain tree stands for the mount of an older daemon.
    match hearth::is_control(fstat(&file)?.st_ino) || cfg!(test) {
        true => Ok(file.into()),
        false => Err(Error::from(ErrorKind::NotFound)),
    }
}
