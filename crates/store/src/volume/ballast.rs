//! Room that the engine gets when the disk is full.
//!
//! A checkpoint writes at most the contents of the log into tables. The file `ballast` holds as
//! many blocks. A checkpoint that finds the disk full cuts it off and goes on; the room comes back
//! when there is some. Frames need none: the log holds its blocks.

use super::LOG_FILES;
use crate::disk::{Access, Disk, File};
use crate::error::{Error, Result};
use hearth_sync::primitive::Arc;

const NAME: &str = "ballast";

/// The ballast of an open volume.
pub(crate) struct Ballast {
    file: Arc<dyn File>,
    target: u64,
}

impl Ballast {
    /// Opens the ballast, or makes it.
    pub(crate) fn open(disk: &dyn Disk, log_len: u64) -> Result<Ballast> {
        let file = match disk.open(NAME, Access::Write) {
            Err(error) if error.is_absent() => disk.create(NAME)?,
            // Nobody reads it. The other name keeps its own.
            Err(Error::Linked { .. }) => {
                disk.remove(NAME)?;
                disk.create(NAME)?
            }
            file => file?,
        };
        let target = log_len * LOG_FILES;
        Ok(Ballast { file, target })
    }

    /// Bytes that are missing.
    pub(crate) fn missing(&self) -> Result<u64> {
        Ok(self.target - self.file.size()?.min(self.target))
    }

    /// Takes what is missing, if there is room; returns whether it is whole now.
    pub(crate) fn fill(&self) -> bool {
        match self.missing() {
            Ok(0) => true,
            _ if self.file.allocate(self.target).is_ok() => true,
            _ => {
                // Part of it is better given back: an operation may use the room meanwhile. Nothing
                // is written where there is none, for this comes again each second.
                if self.file.size() != Ok(0) {
                    let _ = self.file.truncate(0);
                }
                false
            }
        }
    }

    /// Gives the room to whoever needs it now.
    pub(crate) fn release(&self) -> Result<()> {
        self.file.truncate(0)
    }
}
