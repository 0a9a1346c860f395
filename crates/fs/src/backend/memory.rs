//! The backend of a volume that lives in memory alone: what is absent in memory does not exist.

use super::{Backend, BackendOp, InodeRecord};
use crate::attr::Target;
use crate::errno::Result;

/// `memory:` on the command line.
#[derive(Debug, Default)]
pub struct MemoryBackend;

impl Backend for MemoryBackend {
    fn evictable(&self) -> bool {
        false
    }

    fn last_inode(&self) -> Result<u64> {
        Ok(0)
    }

    fn load_inode(&self, _ino: u64) -> Result<Option<InodeRecord>> {
        Ok(None)
    }

    fn load_entry(&self, _dir: u64, _name: &[u8]) -> Result<Option<Target>> {
        Ok(None)
    }

    fn load_directory(&self, _dir: u64) -> Result<Vec<(Box<[u8]>, Target)>> {
        Ok(Vec::new())
    }

    fn load_page(&self, _ino: u64, _index: u64) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn list_pages(&self, _ino: u64) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }

    fn commit(&self, _changes: &[BackendOp<'_>]) -> Result<()> {
        Ok(())
    }

    fn write_page(&self, _ino: u64, _index: u64, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
