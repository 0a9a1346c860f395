//! Segments: immutable files of data blocks.
//!
//! | file | is |
//! |---|---|
//! | `layout` | the bytes of heads, headers and trailers |
//! | `stored` | where a block is: what a record of an extent carries |
//! | `coder` | from pages to blocks and back |
//! | `folder` | where segments are |
//! | `files` | segments that are read as files, through `object_store` |
//! | `disk_folder` | the steps of storing a segment; segments on a disk of the tests |
//! | `group` | small writes of several writers share a segment |
//! | `several` | pages of several files in one segment |
//! | `stream` | large writes: whole segments, part by part |
//! | `flight` | one read at a time for each block |
//! | `read` | single blocks |
//! | `run` | many blocks, fetched ahead of being verified |
//! | `buffers` | memory for what is read, used again |
//! | `ahead` | results between the thread that fetches and the one that verifies |
//! | `survey` | the headers of a segment, for `fsck` and the collector |
//! | `rewrite` | live blocks move to new segments |
//!
//! A segment is durable before a record names it, and is never changed. Its number is never used
//! again, so what was read of it stays right.

mod ahead;
mod buffers;
mod coder;
mod disk_folder;
mod files;
mod flight;
mod folder;
mod group;
mod layout;
mod read;
mod rewrite;
mod run;
mod several;
mod stored;
mod stream;
mod survey;

pub use coder::Page;
pub use layout::{BLOCK_MAX, BlockHeader, HEADER, PAGE};
pub use stored::{Stored, Written};
pub use survey::{SurveyedBlock, Swept};

use crate::codec::{Cipher, Compression};
use crate::disk::Disk;
use crate::disk::real::RealDisk;
use crate::error::Result;
use buffers::Buffers;
use coder::{BlockOwner, Coder, Target, cut};
use disk_folder::DiskFolder;
use files::Files;
use flight::Flights;
use folder::Folder;
use group::Groups;
use hearth_backend::PageSource;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use std::path::{Path, PathBuf};

/// Pages of a write that goes into a segment with others; larger ones get segments of their own.
const SHARED_MAX: u64 = (4 << 20) / PAGE as u64;

/// How segments are written and read.
#[derive(Debug)]
pub struct Settings {
    /// Id of the volume.
    pub volume: [u8; 16],
    /// How new blocks are packed.
    pub compression: Compression,
    /// What blocks are encrypted with; `None` in a volume that is not encrypted.
    pub cipher: Option<Cipher>,
    /// The first number of a segment that was never used.
    pub next: u64,
    /// Bytes of unpacked blocks to keep.
    pub kept: usize,
}

/// The segments of a volume.
#[derive(Debug)]
pub struct Segments {
    coder: Coder,
    files: Folder,
    groups: Groups,
    flights: Flights<BlockHeader>,
    buffers: Buffers,
    /// The number of the next segment. It only grows.
    next: AtomicU64,
    /// The epoch that new segments are begun in.
    epoch: AtomicU64,
}

impl Segments {
    /// The segments of the volume in `dir`. Changes nothing there.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn open(dir: &Path, settings: Settings) -> Result<Segments> {
        let disk = DiskFolder::new(Arc::new(RealDisk::new(dir)));
        Segments::open_in(Folder::Host(Files::open(dir)?, disk), settings)
    }

    /// The segments on a disk, which has their folder: for tests of crashes.
    ///
    /// # Errors
    /// What the disk says.
    pub fn open_on(disk: Arc<dyn Disk>, settings: Settings) -> Result<Segments> {
        Segments::open_in(Folder::Disk(DiskFolder::new(disk)), settings)
    }

    fn open_in(files: Folder, settings: Settings) -> Result<Segments> {
        // A crash may have lost the record of a number that a file has already.
        let last = files.walk()?.segments.last().copied();
        let next = last.map_or(settings.next, |last| settings.next.max(last + 1));
        Ok(Segments {
            coder: Coder {
                volume: settings.volume,
                compression: settings.compression,
                cipher: settings.cipher,
            },
            files,
            groups: Groups::default(),
            flights: Flights::new(settings.kept),
            buffers: Buffers::default(),
            next: AtomicU64::new(next),
            epoch: AtomicU64::new(0),
        })
    }

    /// The first number that no segment had yet: what the volume remembers for the next opening.
    pub fn next(&self) -> u64 {
        // Relaxed: the number itself is all.
        self.next.load(Ordering::Relaxed)
    }

    /// Segments are begun in this epoch from now on; `fsck` tells older blocks from newer ones by
    /// it.
    pub fn set_epoch(&self, epoch: u64) {
        // Relaxed: nothing else is read by it.
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Stores pages of a file in blocks of adjacent ones, and returns where they are once they are
    /// durable. Blocks come in the order of the pages.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`] where the disk is full, and what the operating system says.
    /// Nothing of the write is there then, but whole segments that no record names may be.
    pub fn write(
        &self,
        ino: u64,
        generation: u32,
        source: &dyn PageSource,
    ) -> Result<Vec<Written>> {
        let owner = BlockOwner { ino, generation };
        let next = || self.target();
        let blocks: Vec<_> = cut(source.runs()).collect();
        match blocks.iter().map(|block| block.end - block.start).sum() {
            0 => Ok(Vec::new()),
            1..=SHARED_MAX => {
                self.groups
                    .write(&self.coder, &self.files, next, owner, source, &blocks)
            }
            _ => stream::write(&self.coder, &self.files, &next, owner, source, &blocks),
        }
    }

    /// Removes a segment. It may come back after a crash, so opening repeats it.
    ///
    /// # Errors
    /// What the operating system says; one that is gone is no error.
    pub fn delete(&self, number: u64) -> Result<()> {
        self.files.delete(number)
    }

    /// The file of a segment, relative to the volume's directory.
    pub fn file_of(number: u64) -> PathBuf {
        files::shown(number)
    }

    fn target(&self) -> Target {
        Target {
            // Relaxed: each number is given once, whatever else is seen.
            segment: self.next.fetch_add(1, Ordering::Relaxed),
            epoch: self.epoch.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
