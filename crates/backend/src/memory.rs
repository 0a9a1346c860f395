//! The backend of a volume that lives in memory alone: what is absent in memory does not exist.

use crate::attr::Target;
use crate::errno::Result;
use crate::{Allocation, Backend, Extent, Inode, PageSource, Record, Restart};
use std::ops::Range;

/// `memory:` on the command line.
#[derive(Debug, Default)]
pub struct MemoryBackend;

impl Backend for MemoryBackend {
    fn is_durable(&self) -> bool {
        false
    }

    fn restart(&self) -> Result<Option<Restart>> {
        Ok(None)
    }

    fn load_inode(&self, _ino: u64) -> Result<Option<Inode>> {
        Ok(None)
    }

    fn load_entry(&self, _dir: u64, _name: &[u8]) -> Result<Option<Target>> {
        Ok(None)
    }

    fn load_directory(&self, _dir: u64) -> Result<Vec<(Box<[u8]>, Target)>> {
        Ok(Vec::new())
    }

    fn load_allocation(&self, _ino: u64, _pages: Range<u64>) -> Result<Allocation> {
        Ok(Vec::new())
    }

    fn load_pages(
        &self,
        _ino: u64,
        _pages: Range<u64>,
        _take: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<()> {
        Ok(())
    }

    fn write_pages(
        &self,
        _ino: u64,
        _generation: u32,
        _pages: &dyn PageSource,
    ) -> Result<Vec<Extent>> {
        Ok(Vec::new())
    }

    fn commit(&self, _epoch: u64, _records: Vec<Record>) -> Result<()> {
        Ok(())
    }

    fn room(&self) -> Option<(u64, u64)> {
        None
    }

    fn tidy(&self) -> bool {
        false
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
