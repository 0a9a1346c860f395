//! A volume that a dump is loaded into: until all of it is there nobody opens it as if it were.

use super::file_names::LOADING;
use super::keys::Kv;
use crate::disk::Disk;
use crate::disk::real::RealDisk;
use crate::error::Result;
use std::path::Path;

impl Kv {
    /// From here on, also after a crash, the volume in `dir` is refused until [`Kv::end_load`].
    /// Durable when it returns, so before the first record. The caller has it open for writing.
    ///
    /// # Errors
    /// Those of the device.
    pub fn begin_load(dir: &Path) -> Result<()> {
        let disk = RealDisk::new(dir);
        drop(disk.create(LOADING)?);
        disk.sync_dir("")
    }

    /// The load is whole, and durable.
    ///
    /// # Errors
    /// Those of the device.
    pub fn end_load(dir: &Path) -> Result<()> {
        let disk = RealDisk::new(dir);
        disk.remove(LOADING)?;
        disk.sync_dir("")
    }
}
