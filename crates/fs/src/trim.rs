//! Memory of inodes that have ended, given back: `docs/design/memory.md`.

use crate::superblock::Superblock;
use crate::volume::Volume;
use hearth_sync::epoch::{self, pin};

/// Gives back the memory that the table of inodes keeps for numbers without an inode, and what idle
/// threads have retired, by looks at a steady pace.
pub struct Trimmer {
    volume: Volume,
    /// Most inodes that were seen in memory since their table was trimmed.
    most: u64,
}

/// Flushes after which a bag is freed, unless another thread is pinned all the time.
const FLUSHES: u32 = 4;

impl Volume {
    /// A trimmer, to be asked about once a second.
    pub fn trimmer(&self) -> Trimmer {
        Trimmer {
            volume: self.clone(),
            most: 0,
        }
    }
}

impl Trimmer {
    /// Gives back what it can. Where the program is not `calm`, the table of inodes is walked only
    /// after half of them have gone, since that reads every entry.
    pub fn look(&mut self, calm: bool) {
        epoch::free_leftovers();
        let sb: &Superblock = &self.volume.sb;
        let inodes = &sb.objects.inodes;
        let now = inodes.len() as u64;
        self.most = self.most.max(now);
        let worth = if calm { self.most } else { self.most / 2 };
        if now < worth {
            inodes.trim(0..u64::MAX, &pin());
            self.most = now;
            // The blocks lie in the bag of this thread, which retires nothing else.
            (0..FLUSHES).for_each(|_| pin().flush());
        }
    }
}
