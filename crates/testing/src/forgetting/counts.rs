//! What was asked of the filesystem, and how long a sync takes.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Requests since the mount, over all power cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of directories.
    pub directory_syncs: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes of these.
    pub bytes_written: u64,
}

/// What the disk below does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Writes fail with EIO; so do syncs, and what they should have kept is lost, as it is in the
    /// page cache of Linux.
    Broken,
    /// There is no room: whatever would take some fails with ENOSPC. Bytes that are there can be
    /// written over.
    Full,
    /// The next write fails with EIO, and all others work.
    Once,
}

/// [`Counts`] as they grow. Each number stands by itself: nothing is ordered by it.
#[derive(Debug, Default)]
pub struct Counters {
    syncs: AtomicU64,
    directory_syncs: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    delay_us: AtomicU64,
    fault: AtomicU8,
}

impl Counters {
    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        Counts {
            syncs: self.syncs.load(Relaxed),
            directory_syncs: self.directory_syncs.load(Relaxed),
            writes: self.writes.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
        }
    }

    /// How long each sync waits.
    pub fn delay(&self) -> Duration {
        Duration::from_micros(self.delay_us.load(Relaxed))
    }

    /// Makes each sync wait from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.delay_us.store(delay.as_micros() as u64, Relaxed);
    }

    /// What goes wrong now.
    pub fn fault(&self) -> Fault {
        match self.fault.load(Relaxed) {
            1 => Fault::Broken,
            2 => Fault::Full,
            3 => Fault::Once,
            _ => Fault::None,
        }
    }

    /// What goes wrong with a write that comes now.
    pub fn fault_of_write(&self) -> Fault {
        let (once, none) = (Fault::Once as u8, Fault::None as u8);
        match self.fault.compare_exchange(once, none, Relaxed, Relaxed) {
            Ok(_) => Fault::Broken,
            Err(_) => self.fault(),
        }
    }

    /// Makes that go wrong from now on.
    pub fn set_fault(&self, fault: Fault) {
        self.fault.store(fault as u8, Relaxed);
    }

    pub fn synced(&self) {
        self.syncs.fetch_add(1, Relaxed);
    }

    pub fn synced_directory(&self) {
        self.directory_syncs.fetch_add(1, Relaxed);
    }

    pub fn wrote(&self, bytes: u64) {
        self.writes.fetch_add(1, Relaxed);
        self.bytes_written.fetch_add(bytes, Relaxed);
    }
}
