//! Where segments are: a directory of the host, or any disk.

use super::buffers::Buffers;
use super::disk_folder::{DiskFolder, DiskUpload};
use super::files::{Files, FoundFiles, Reader};
use crate::error::Result;
use bytes::Bytes;
use std::ops::Range;
use std::path::Path;

/// The folder of segments.
#[derive(Debug)]
pub enum Folder {
    /// A directory of the host: what is read of it, and what is stored in it.
    Host(Files, DiskFolder),
    /// Any disk, for tests of crashes.
    Disk(DiskFolder),
}

impl Folder {
    /// Stores a whole segment; durable when it returns.
    pub fn put(&self, number: u64, parts: &[Bytes]) -> Result<()> {
        self.disk().put(number, parts)
    }

    /// Begins to store a segment part by part.
    pub fn upload(&self, number: u64) -> Result<DiskUpload<'_>> {
        self.disk().upload(number)
    }

    fn disk(&self) -> &DiskFolder {
        match self {
            Folder::Host(_, disk) | Folder::Disk(disk) => disk,
        }
    }

    /// The bytes of a segment in `range`; fewer where it ends before.
    pub fn range(&self, number: u64, range: Range<u64>) -> Result<Bytes> {
        match self {
            Folder::Host(files, _) => files.range(number, range),
            Folder::Disk(disk) => disk.range(number, range),
        }
    }

    /// Opens a segment for several reads one behind the other.
    pub fn reader(&self, number: u64) -> Result<FolderReader<'_>> {
        match self {
            Folder::Host(files, _) => files.reader(number).map(FolderReader::Host),
            Folder::Disk(disk) => Ok(FolderReader::Disk(disk, number)),
        }
    }

    /// Length of a segment in bytes.
    pub fn len(&self, number: u64) -> Result<u64> {
        match self {
            Folder::Host(files, _) => files.len(number),
            Folder::Disk(disk) => disk.len(number),
        }
    }

    /// Removes a segment. One that is gone is no error: a removal that a crash undid, or did not,
    /// is repeated.
    pub fn delete(&self, number: u64) -> Result<()> {
        match self {
            Folder::Host(files, _) => files.delete(number),
            Folder::Disk(disk) => disk.delete(number),
        }
    }

    /// Everything below the folder.
    pub fn walk(&self) -> Result<FoundFiles> {
        match self {
            Folder::Host(files, _) => files.walk(),
            Folder::Disk(disk) => disk.walk(),
        }
    }

    /// Removes what an upload left behind.
    pub fn remove_upload(&self, path: &Path) -> Result<()> {
        match self {
            Folder::Host(files, _) => files.remove_upload(path),
            Folder::Disk(disk) => disk.remove_upload(path),
        }
    }
}

/// A segment that is open for reading.
#[derive(Debug)]
pub enum FolderReader<'a> {
    /// A file of the host.
    Host(Reader<'a>),
    /// A file of a disk.
    Disk(&'a DiskFolder, u64),
}

impl FolderReader<'_> {
    /// Number of the segment.
    pub fn number(&self) -> u64 {
        match self {
            FolderReader::Host(reader) => reader.number(),
            FolderReader::Disk(_, number) => *number,
        }
    }

    /// The bytes in `range`, in a buffer of `buffers`; fewer where the segment ends before.
    pub fn range(&self, range: Range<u64>, buffers: &Buffers) -> Result<Bytes> {
        match self {
            FolderReader::Host(reader) => reader.range(range, buffers),
            FolderReader::Disk(disk, number) => disk.range(*number, range),
        }
    }
}
