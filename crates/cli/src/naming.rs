//! What a mount is called in `/proc/mounts`, where `df` and `findmnt` look.

use crate::mounts;
use hearth::Source;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Of a volume that lives nowhere.
const MEMORY: &str = "memory";

/// The name of a mount of `source`: its directory.
pub fn of(source: &Source) -> PathBuf {
    match source {
        Source::Memory => MEMORY.into(),
        Source::Store(directory) | Source::Host(directory) => of_directory(directory),
    }
}

/// The name of a mount of what lives in a directory: without links on the way, and without colons,
/// by which `df` and others know a network filesystem. Two directories may have the same.
pub fn of_directory(directory: &Path) -> PathBuf {
    let mut name = mounts::resolved(directory).into_os_string().into_vec();
    for byte in &mut name {
        if *byte == b':' {
            *byte = b'_';
        }
    }
    OsString::from_vec(name).into()
}
