//! Transfers and listings that take long: they let go of the epoch in between, so that what others
//! retire meanwhile is freed.
//!
//! A guard that lasts as long as a copy of 64 MiB held back 15 MB of what another core removed.
//! The description is held by a count instead, which short calls do not pay for. When its last
//! descriptor is closed meanwhile the rest of the call fails, and the call answers what it has
//! done.

use super::files::check_range;
use super::piece::BYTES;
use super::{Fd, Process};
use crate::errno::Result;
use crate::ops::open::OpenFile;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::primitive::Arc;
use std::io::IoSliceMut;

impl Process {
    /// Reads into `outs`, at `off` or at the file offset.
    pub(super) fn readv_long(
        &self,
        fd: Fd,
        outs: &mut [IoSliceMut<'_>],
        off: Option<u64>,
    ) -> Result<usize> {
        let file = self.kept(fd, |process, g| process.readable(fd, g).map(drop))?;
        let mut position = off.is_none().then(|| file.position().lock());
        let at = off.or(position.as_deref().copied()).unwrap_or_default();
        check_range(at, outs.iter().map(|out| out.len()).sum())?;
        let mut total = 0;
        for part in outs.iter_mut().flat_map(|out| out.chunks_mut(BYTES)) {
            match self.read_at(&file, at + total as u64, part) {
                Ok(got) => {
                    total += got;
                    if got < part.len() {
                        break;
                    }
                }
                Err(_) if total > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        if let Some(position) = &mut position {
            **position = at + total as u64;
        }
        Ok(total)
    }

    /// Writes `data`, at `off` or at the file offset. What is appended stays in one piece, under
    /// one guard.
    pub(super) fn write_long(&self, fd: Fd, data: &[u8], off: Option<u64>) -> Result<usize> {
        let file = self.kept(fd, |process, g| process.writable(fd, g).map(drop))?;
        let mut position = off.is_none().then(|| file.position().lock());
        let mut at = off.or(position.as_deref().copied()).unwrap_or_default();
        check_range(at, data.len())?;
        let append = file.flags() & libc::O_APPEND != 0;
        let mut total = 0;
        for part in data.chunks(if append { data.len() } else { BYTES }) {
            match self.write_at(&file, at, part) {
                Ok((start, done)) => {
                    total += done;
                    at = start + done as u64;
                    if done < part.len() {
                        break;
                    }
                }
                Err(_) if total > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        if let Some(position) = &mut position {
            **position = at;
        }
        Ok(total)
    }

    /// The description of `fd`, held by a count.
    pub(super) fn kept(
        &self,
        fd: Fd,
        check: impl FnOnce(&Process, &Guard) -> Result<()>,
    ) -> Result<Arc<OpenFile>> {
        let g = pin();
        check(self, &g)?;
        self.usable(fd, &g).map(Arc::clone)
    }
}
