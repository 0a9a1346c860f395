//! Ranges of open files: finding data and holes, allocating, copying.

use crate::checked::SuidSgid;
use crate::errno::PassOn;
use crate::file::OpenHost;
use crate::over::Over;
use crate::tree::Tree;
use hearth::{Caller, Errno, Result};
use rustix::fd::AsFd;
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};

/// The most that one call copies: what Linux moves in one call.
const COPY_MAX: u64 = 0x7fff_f000;

impl Tree {
    /// Next data or hole at or after `off`. The position of the descriptor means nothing.
    pub fn lseek(file: &OpenHost, off: i64, whence: i32) -> Result<u64> {
        let off = u64::try_from(off).map_err(|_| Errno::ENXIO)?;
        let to = match whence {
            libc::SEEK_DATA => SeekFrom::Data(off),
            libc::SEEK_HOLE => SeekFrom::Hole(off),
            _ => return Err(Errno::EINVAL),
        };
        seek(file.fd()?, to).pass_on()
    }

    /// `fallocate(2)`, with whatever modes the host has.
    pub fn fallocate(
        &self,
        caller: &Caller<'_>,
        file: &OpenHost,
        mode: i32,
        off: u64,
        len: u64,
    ) -> Result<()> {
        let fd = self.to_write(&file.descriptor)?;
        let over = [fd.as_fd()];
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let suid_sgid = SuidSgid::of_caller(caller);
        let done = self
            .rights
            .change(caller, Over::Inodes(&over), suid_sgid, || {
                fallocate(&fd, flags, off, len).pass_on()
            });
        drop(fd);
        self.give_up_idle(&file.node);
        done
    }

    /// Copies within the host, which shares blocks where it can.
    pub fn copy_range(
        &self,
        caller: &Caller<'_>,
        (from, from_at): (&OpenHost, u64),
        (to, to_at): (&OpenHost, u64),
        len: u64,
    ) -> Result<u64> {
        let len = len.min(COPY_MAX) as usize;
        let (from, fd) = (from.fd()?, self.to_write(&to.descriptor)?);
        let (over, suid_sgid) = ([from.as_fd(), fd.as_fd()], SuidSgid::of_caller(caller));
        let done = self
            .rights
            .change(caller, Over::Inodes(&over), suid_sgid, || {
                let (mut from_at, mut to_at) = (from_at, to_at);
                let copied = copy_file_range(&from, Some(&mut from_at), &fd, Some(&mut to_at), len);
                copied.pass_on().map(|copied| copied as u64)
            });
        drop((from, fd));
        self.give_up_idle(&to.node);
        done
    }
}
