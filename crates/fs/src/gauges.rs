//! What a volume holds now, and the tunables that front ends read and set.

use crate::data::PAGE;
use crate::inode::{Inode, InodeExt};
use crate::quota::QuotaId;
use crate::superblock::{AtimeMode, Superblock};
use crate::volume::Volume;
use hearth_sync::epoch::pin;

/// What a volume holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeGauges {
    /// Inodes of the volume; over a directory of the host without quotas, where nobody counts them,
    /// those of its whole filesystem.
    pub inodes: u64,
    /// Allocated bytes of file contents; as for the inodes.
    pub page_bytes: u64,
    /// Inodes in memory.
    pub inodes_in_memory: u64,
    /// Bytes of these inodes, without what a CPU, attributes and contents add.
    pub inode_bytes: u64,
    /// Bytes of the blocks of memory in which inodes lie, also where few of a block's are left.
    pub inode_table_bytes: u64,
    /// Names of the directories in memory.
    pub dentries: u64,
    /// Bytes of these names and of the tables that find them.
    pub dentry_bytes: u64,
    /// Bytes that count towards the memory budget; 0 if the backend takes nothing back.
    pub budgeted_bytes: u64,
    /// Calls that wait for a lock of a file.
    pub lock_waiters: u64,
}

/// What a durable volume has to write, and its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreGauges {
    /// Bytes that were written and may not have reached the backend.
    pub dirty_bytes: u64,
    /// Bytes of the place that holds the volume, and how many of them are free, if it has an end.
    pub room: Option<(u64, u64)>,
}

/// Inodes that [`dentries`] visits before it lets go of what others retired meanwhile.
const STEP: usize = 1024;

impl Volume {
    /// What the volume holds now. Visits every directory in memory, because changes of names are
    /// not counted.
    pub fn gauges(&self) -> VolumeGauges {
        let sb: &Superblock = &self.sb;
        let usage = sb.quotas.ledger.usage(QuotaId::VOLUME, &pin());
        let [pages, inodes] = usage.map(|usage| usage.used);
        let mut inodes_in_memory = sb.objects.inodes.len() as u64;
        let (dentries, dentry_bytes) = dentries(sb);
        let (mut inodes, mut page_bytes) = (inodes, pages * PAGE);
        if let Some(files) = sb.objects.foreign() {
            // The ledger counts them where quotas are kept; else nobody does.
            if !sb.quotas.ledger.is_by_owner() {
                (inodes, page_bytes) = files.used();
            }
            inodes_in_memory = files.in_memory();
        }
        VolumeGauges {
            inodes,
            page_bytes,
            inodes_in_memory,
            inode_bytes: inodes_in_memory * size_of::<Inode>() as u64,
            inode_table_bytes: sb.objects.inodes.bytes() as u64,
            dentries,
            dentry_bytes,
            budgeted_bytes: sb.cache.mem_usage.sum().max(0) as u64,
            lock_waiters: sb.file_locks.waits.waiting(),
        }
    }

    /// What a durable volume has to write, and its room; `None` of another.
    pub fn store_gauges(&self) -> Option<StoreGauges> {
        let log = self.sb.log()?;
        Some(StoreGauges {
            dirty_bytes: log.unwritten.bytes(),
            room: self.sb.objects.backend.room(),
        })
    }

    /// The memory budget in bytes, 0 for none; see [`crate::VolumeBuilder::memory_budget`].
    pub fn memory_budget(&self) -> u64 {
        self.sb.cache.mem_usage.budget()
    }

    /// Sets [`Volume::memory_budget`].
    pub fn set_memory_budget(&self, bytes: u64) {
        self.sb.cache.mem_usage.set_budget(bytes);
    }

    /// When reads move the access time.
    pub fn atime(&self) -> AtimeMode {
        self.sb.atime()
    }

    /// Sets [`Volume::atime`].
    pub fn set_atime(&self, mode: AtimeMode) {
        self.sb.set_atime(mode);
    }
}

/// Names of the directories in memory, and their bytes.
fn dentries(sb: &Superblock) -> (u64, u64) {
    let (mut names, mut bytes) = (0, 0);
    let mut from = Some(0);
    while let Some(first) = from.take() {
        let g = pin();
        let mut left = STEP;
        sb.objects.inodes.scan(first, &g, |inode| {
            if let Some(directory) = inode.directory() {
                let entries = inode.entries();
                names += entries;
                bytes += directory.bytes(entries, &g);
            }
            left -= 1;
            from = (left == 0).then(|| inode.number() + 1);
            left > 0
        });
    }
    (names, bytes)
}
