//! Reading segments as files, through `object_store`; `disk_folder` stores them.
//!
//! Where no runtime of tokio is entered, `object_store` does the calls of its local store on the
//! calling thread, so a future of it is ready when it is first polled: waiting for it costs
//! nothing and needs no other thread.

use super::buffers::Buffers;
use crate::error::{Error, Result};
use bytes::Bytes;
use hearth_backend::Errno;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{GetResultPayload, ObjectStoreExt};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The folder in the volume's directory.
pub const FOLDER: &str = "segments";

/// The directory of segments.
#[derive(Debug)]
pub struct Files {
    store: LocalFileSystem,
    root: PathBuf,
}

/// What a walk of the directory finds.
#[derive(Debug, Default)]
pub struct FoundFiles {
    /// Numbers of segments, rising.
    pub segments: Vec<u64>,
    /// Files that uploads left behind when they were cut off.
    pub uploads: Vec<PathBuf>,
    /// Files and folders that nothing here makes.
    pub strange: Vec<PathBuf>,
}

impl FoundFiles {
    /// Adds a file of the folder `low` by what its name says.
    pub(super) fn add(&mut self, low: u8, path: PathBuf) {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default();
        match (number(name), name.split_once('#')) {
            (Some(number), _) if number as u8 == low => self.segments.push(number),
            (_, Some((begin, _))) if number(begin).is_some() => self.uploads.push(path),
            _ => self.strange.push(path),
        }
    }
}

impl Files {
    /// The segments of the volume in `dir`.
    pub fn open(dir: &Path) -> Result<Files> {
        let root = dir.join(FOLDER);
        let store = LocalFileSystem::new_with_prefix(&root).map_err(|error| Error::Io {
            op: "open",
            path: root.clone(),
            errno: errno(&error),
        })?;
        Ok(Files { store, root })
    }

    /// The bytes of a segment in `range`; fewer where it ends before.
    pub fn range(&self, number: u64, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let at = range.start;
        match pollster::block_on(self.store.get_range(&key(number), range)) {
            Ok(bytes) => Ok(bytes),
            // A range that begins at the end or behind it is an error of the store; asking for the
            // length tells it from others.
            Err(error) if io_error(&error).is_none() && self.len(number).is_ok_and(|l| l <= at) => {
                Ok(Bytes::new())
            }
            Err(error) => Err(fault("read", number, at, &error)),
        }
    }

    /// Opens a segment for several reads one behind the other: the host reads ahead of one that
    /// stays open.
    pub fn reader(&self, number: u64) -> Result<Reader<'_>> {
        let got = pollster::block_on(self.store.get(&key(number)))
            .map_err(|error| fault("open", number, 0, &error))?;
        let len = got.meta.size;
        let file = match got.payload {
            GetResultPayload::File(file, _) => Some(file),
            GetResultPayload::Stream(_) => None,
        };
        Ok(Reader {
            files: self,
            number,
            len,
            file,
        })
    }

    /// Length of a segment in bytes.
    pub fn len(&self, number: u64) -> Result<u64> {
        pollster::block_on(self.store.head(&key(number)))
            .map(|meta| meta.size)
            .map_err(|error| fault("stat", number, 0, &error))
    }

    /// Removes a segment. One that is gone is no error: a removal that a crash undid, or did not,
    /// is repeated.
    pub fn delete(&self, number: u64) -> Result<()> {
        match pollster::block_on(self.store.delete(&key(number))) {
            Err(object_store::Error::NotFound { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(fault("remove", number, 0, &error)),
        }
    }

    /// Everything below the directory of segments. The listing of `object_store` hides what
    /// uploads left behind.
    pub fn walk(&self) -> Result<FoundFiles> {
        let mut found = FoundFiles::default();
        for folder in self.entries(&self.root)? {
            let Some(low) = folder.file_name().and_then(|name| byte(name.to_str()?)) else {
                found.strange.push(folder);
                continue;
            };
            for path in self.entries(&folder)? {
                found.add(low, path);
            }
        }
        found.segments.sort_unstable();
        Ok(found)
    }

    /// Removes what an upload left behind.
    pub fn remove_upload(&self, path: &Path) -> Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::Io {
                op: "remove",
                path: path.to_path_buf(),
                errno: Errno::from(error),
            }),
            _ => Ok(()),
        }
    }

    fn entries(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let failed = |error| Error::Io {
            op: "list",
            path: folder.to_path_buf(),
            errno: Errno::from(error),
        };
        std::fs::read_dir(folder)
            .map_err(failed)?
            .map(|entry| entry.map(|entry| entry.path()).map_err(failed))
            .collect()
    }
}

/// A segment that is open for reading.
#[derive(Debug)]
pub struct Reader<'a> {
    files: &'a Files,
    number: u64,
    len: u64,
    /// `None` where the store has no files.
    file: Option<File>,
}

impl Reader<'_> {
    /// Number of the segment.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The bytes in `range`, in a buffer of `buffers`; fewer where the segment ends before.
    pub fn range(&self, range: Range<u64>, buffers: &Buffers) -> Result<Bytes> {
        let range = range.start.min(self.len)..range.end.min(self.len);
        let Some(file) = &self.file else {
            return self.files.range(self.number, range);
        };
        let mut bytes = buffers.take(range.end.saturating_sub(range.start) as usize);
        match file.read_exact_at(&mut bytes, range.start) {
            Ok(()) => Ok(Bytes::from(bytes)),
            // Cut off since it was opened.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Bytes::new()),
            Err(error) => Err(Error::Io {
                op: "read",
                path: shown(self.number),
                errno: Errno::from(error),
            }),
        }
    }
}

/// The file of a segment, relative to the volume's directory.
pub fn shown(number: u64) -> PathBuf {
    [FOLDER, key(number).as_ref()].iter().collect()
}

fn key(number: u64) -> Key {
    Key::from(format!("{}/{}", folder_name(number), file_name(number)))
}

pub(super) fn folder_name(number: u64) -> String {
    format!("{:02x}", number as u8)
}

pub(super) fn file_name(number: u64) -> String {
    format!("{number:016x}")
}

/// The number that a file's name says, if it is one that [`key`] gives.
fn number(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name, 16).ok()?;
    (file_name(number) == name && number < u64::MAX).then_some(number)
}

/// The byte that a folder's name says.
pub(super) fn byte(name: &str) -> Option<u8> {
    let byte = u8::from_str_radix(name, 16).ok()?;
    (format!("{byte:02x}") == name).then_some(byte)
}

fn fault(op: &'static str, number: u64, offset: u64, error: &object_store::Error) -> Error {
    if matches!(error, object_store::Error::NotFound { .. }) {
        return Error::Corrupt {
            file: shown(number),
            offset,
            what: "the segment is missing".into(),
        };
    }
    match errno(error) {
        Errno::ENOSPC | Errno::EDQUOT => Error::NoSpace { what: "data" },
        errno => Error::Io {
            op,
            path: shown(number),
            errno,
        },
    }
}

/// The operating system's number at the root of an error.
fn errno(error: &object_store::Error) -> Errno {
    io_error(error)
        .and_then(io::Error::raw_os_error)
        .map_or(Errno::EIO, Errno)
}

/// The error of the operating system that is the cause.
fn io_error(error: &object_store::Error) -> Option<&io::Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_room_and_other_errors_keep_their_number() {
        let failed = |number| object_store::Error::Generic {
            store: "LocalFileSystem",
            source: Box::new(io::Error::from_raw_os_error(number)),
        };
        for number in [Errno::ENOSPC, Errno::EDQUOT] {
            let error = fault("write", 1, 0, &failed(number.0));
            assert!(matches!(error, Error::NoSpace { .. }));
        }
        let error = fault("write", 1, 0, &failed(Errno::EIO.0));
        assert!(matches!(
            error,
            Error::Io {
                errno: Errno::EIO,
                ..
            }
        ));
    }
}
