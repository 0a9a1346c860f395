//! The disk that everything lies on.

use crate::mounted::Mounted;
use crate::options::Options;
use hearth_testing::disk::{DiskCounts, SlowDisk};
use hearth_testing::forgetting::Options as Forgetting;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a flush takes on a slow disk.
const FLUSH: Duration = Duration::from_millis(4);

/// A disk for one run.
pub enum Disk {
    /// A loop device over a file that was written over before.
    Loop(Mounted),
    /// One whose flushes take long.
    Slow(Box<SlowDisk>),
    /// A directory that was named: its disk may have other users.
    Named(PathBuf),
}

impl Disk {
    /// The directory that was named, or a disk of its own.
    pub fn cheap(options: &Options) -> Result<Disk, String> {
        match options.targets.first() {
            Some(named) => Ok(Disk::Named(named.into())),
            None => Mounted::disk(options.pick(3 << 30, 8 << 30)).map(Disk::Loop),
        }
    }

    /// One that is filled.
    pub fn small(options: &Options) -> Result<Disk, String> {
        Mounted::disk(options.pick(512 << 20, 2 << 30)).map(Disk::Loop)
    }

    /// One whose flushes take 4 ms.
    pub fn slow(options: &Options) -> Result<Disk, String> {
        let slow = Forgetting {
            delay: FLUSH,
            is_forgetful: false,
            ..Forgetting::default()
        };
        let bytes = options.pick(1 << 30, 4 << 30);
        SlowDisk::new(bytes, slow).map(|disk| Disk::Slow(Box::new(disk)))
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        match self {
            Disk::Loop(mounted) => mounted.directory(),
            Disk::Slow(disk) => disk.path(),
            Disk::Named(path) => path,
        }
    }

    /// Whether little can be done in a second.
    pub fn is_slow(&self) -> bool {
        matches!(self, Disk::Slow(_))
    }

    /// What it was asked to do so far.
    pub fn counts(&self) -> Result<DiskCounts, String> {
        DiskCounts::below(self.path())
    }

    /// Waits until all that was written is on it, so that a job does not pay for the one before.
    pub fn settle(&self) {
        rustix::fs::sync();
    }
}
