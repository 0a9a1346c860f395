//! Long transfers and listings: they drop their epoch guard in between, so that what other threads
//! retire meanwhile is freed.
//!
//! A guard that lasted as long as a copy of 64 MiB held back 15 MB that another core had retired.
//! Between guards a count holds the description, which short calls do not pay for. If its last
//! descriptor is closed meanwhile, the rest of the call fails, and the call returns what it has
//! done.

use super::files::{check_range, check_readable, check_writable, read_at, write_at};
use super::piece::BYTES;
use super::position::lock_position;
use super::{Fd, Process};
use crate::errno::Result;
use crate::ops::open::OpenFile;
use hearth_sync::epoch::throttle;
use std::io::IoSliceMut;

impl Process {
    /// Reads into `outs`, at `off` or at the file offset.
    pub(super) fn readv_long(
        &self,
        fd: Fd,
        outs: &mut [IoSliceMut<'_>],
        off: Option<u64>,
    ) -> Result<usize> {
        self.with_counted(fd, |file| self.readv_in_parts(file, outs, off))
    }

    fn readv_in_parts(
        &self,
        file: &OpenFile,
        outs: &mut [IoSliceMut<'_>],
        off: Option<u64>,
    ) -> Result<usize> {
        check_readable(file)?;
        let mut position = off.is_none().then(|| lock_position(file)).transpose()?;
        let at = off.or(position.as_deref().copied()).unwrap_or_default();
        check_range(at, outs.iter().map(|out| out.len()).sum())?;
        let mut total = 0;
        for part in outs.iter_mut().flat_map(|out| out.chunks_mut(BYTES)) {
            throttle();
            match self.run(|cx, g| read_at(cx, file, at + total as u64, part, g)) {
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

    /// Writes `data`, at `off` or at the file offset. An append stays in one piece, under one
    /// guard.
    pub(super) fn write_long(&self, fd: Fd, data: &[u8], off: Option<u64>) -> Result<usize> {
        // Written bytes are not written again, even if they cannot be made durable.
        self.with_counted(fd, |file| self.write_in_parts(file, data, off))?
    }

    fn write_in_parts(
        &self,
        file: &OpenFile,
        data: &[u8],
        off: Option<u64>,
    ) -> Result<Result<usize>> {
        check_writable(file)?;
        let mut position = off.is_none().then(|| lock_position(file)).transpose()?;
        let mut at = off.or(position.as_deref().copied()).unwrap_or_default();
        check_range(at, data.len())?;
        let append = file.flags() & libc::O_APPEND != 0;
        let mut total = 0;
        for part in data.chunks(if append { data.len() } else { BYTES }) {
            throttle();
            let (start, done) = match self.run(|cx, g| write_at(cx, file, at, part, g)) {
                Ok(written) => written,
                Err(_) if total > 0 => break,
                Err(errno) => return Err(errno),
            };
            match self.sync_written(file) {
                Ok(()) => {}
                Err(_) if total > 0 => break,
                Err(errno) => return Ok(Err(errno)),
            }
            total += done;
            at = start + done as u64;
            if done < part.len() {
                break;
            }
        }
        if let Some(position) = &mut position {
            **position = at;
        }
        Ok(Ok(total))
    }
}
