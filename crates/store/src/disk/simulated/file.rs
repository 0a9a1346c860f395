//! Open files of a simulated disk.

use super::SimulatedDisk;
use crate::disk::File;
use crate::error::Result;
use std::ops::Range;

/// A file that is open.
pub(super) struct SimulatedFile {
    pub(super) disk: SimulatedDisk,
    pub(super) inode: usize,
    pub(super) name: String,
}

impl File for SimulatedFile {
    fn size(&self) -> Result<u64> {
        Ok(self.disk.0.lock().inodes[self.inode].now.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize> {
        let mut state = self.disk.0.lock();
        state.read("read", &self.name)?;
        let bytes = &state.inodes[self.inode].now;
        let from = (at as usize).min(bytes.len());
        let count = into.len().min(bytes.len() - from);
        state.read_blocks(self.inode, &self.name, from..from + count)?;
        state.counts.bytes_read += count as u64;
        let bytes = &state.inodes[self.inode].now;
        into[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.disk.0.lock();
        let step = state.step("write", &self.name);
        let count = match &step {
            Ok(()) => bytes.len(),
            Err(_) if state.is_off && !state.is_cut_here() => 0,
            Err(_) => bytes.len() / 2,
        };
        state.counts.writes += 1;
        state.inode(self.inode).write(at as usize, &bytes[..count]);
        state.write_blocks(self.inode, at as usize..at as usize + count);
        step
    }

    /// Only counts: a cut may take what was started as well.
    fn start_writeback(&self, range: Range<u64>) {
        self.disk.0.lock().counts.bytes_started += range.end - range.start;
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.disk.0.lock();
        let step = state.step("sync", &self.name);
        let is_cut = state.is_off && state.is_cut_here();
        if step.is_ok() || (is_cut && state.dice.coin()) {
            state.counts.syncs += 1;
            state.inode(self.inode).sync();
        } else if !state.is_off {
            state.inode(self.inode).fail_sync();
        }
        step
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let mut state = self.disk.0.lock();
        state.step("reserve room in", &self.name)?;
        let now = state.inodes[self.inode].now.len();
        if len as usize > now {
            state
                .inode(self.inode)
                .write(now, &vec![0; len as usize - now]);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        let mut state = self.disk.0.lock();
        state.step("cut off", &self.name)?;
        let inode = state.inode(self.inode);
        inode.now.resize(len as usize, 0);
        inode.durable.resize(len as usize, 0);
        Ok(())
    }
}
