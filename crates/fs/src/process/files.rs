//! Reading and writing.

use super::{Fd, Process, piece};
use crate::attr::Kind;
use crate::calls::Call;
use crate::data::MAX_SIZE;
use crate::errno::{Errno, Result};
use crate::ops::ctx::Ctx;
use crate::ops::io::{self, WriteAt};
use crate::ops::open::OpenFile;
use crate::ops::privilege::kills_suid;
use crate::superblock::{Attempt, Stop};
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::rcu::{Share, Shared};
use std::io::{IoSlice, IoSliceMut};

impl Process {
    /// `read(2)`: at the file offset, which moves.
    pub fn read(&self, fd: Fd, out: &mut [u8]) -> Result<usize> {
        self.call(Call::Read, || {
            if out.len() > piece::BYTES {
                return self.readv_long(fd, &mut [IoSliceMut::new(out)], None);
            }
            self.with_position(fd, check_readable, |file, position| {
                check_range(*position, out.len())?;
                let got = self.run(|cx, g| read_at(cx, &file, *position, out, g))?;
                *position += got as u64;
                Ok(got)
            })
        })
    }

    /// `pread(2)`.
    pub fn pread(&self, fd: Fd, out: &mut [u8], off: u64) -> Result<usize> {
        self.call(Call::Pread, || {
            check_offset(off)?;
            let in_range = check_range(off, out.len());
            if in_range.is_ok() && out.len() > piece::BYTES {
                return self.readv_long(fd, &mut [IoSliceMut::new(out)], Some(off));
            }
            self.run_on(fd, |cx, file, g| {
                check_reads(&file)?;
                in_range?;
                read_at(cx, check_readable(&file)?, off, out, g)
            })
        })
    }

    /// `readv(2)`. `EINVAL` for more than 1024 buffers, in all four calls that take several.
    pub fn readv(&self, fd: Fd, outs: &mut [IoSliceMut<'_>]) -> Result<usize> {
        self.call(Call::Readv, || {
            self.check_parts(fd, outs.len())?;
            let len = outs.iter().map(|out| out.len()).sum();
            if len > piece::BYTES {
                return self.readv_long(fd, outs, None);
            }
            if len == 0 {
                return self.with(fd, |file| check_reads(file).map(|_| 0));
            }
            self.with_position(fd, check_readable, |file, position| {
                check_range(*position, len)?;
                let got = self.run(|cx, g| readv_at(cx, &file, *position, outs, g))?;
                *position += got as u64;
                Ok(got)
            })
        })
    }

    /// `preadv(2)`.
    pub fn preadv(&self, fd: Fd, outs: &mut [IoSliceMut<'_>], off: u64) -> Result<usize> {
        self.call(Call::Preadv, || {
            check_offset(off)?;
            self.check_parts(fd, outs.len())?;
            let len = outs.iter().map(|out| out.len()).sum();
            let in_range = check_range(off, len);
            if in_range.is_ok() && len > piece::BYTES {
                return self.readv_long(fd, outs, Some(off));
            }
            self.run_on(fd, |cx, file, g| {
                check_reads(&file)?;
                if len == 0 {
                    return Ok(0);
                }
                in_range?;
                readv_at(cx, check_readable(&file)?, off, outs, g)
            })
        })
    }

    /// `write(2)`: at the file offset, which moves, or at the end with `O_APPEND`.
    pub fn write(&self, fd: Fd, data: &[u8]) -> Result<usize> {
        self.call(Call::Write, || self.do_write(fd, data))
    }

    /// `pwrite(2)`; with `O_APPEND` it appends, as Linux does.
    pub fn pwrite(&self, fd: Fd, data: &[u8], off: u64) -> Result<usize> {
        self.call(Call::Pwrite, || self.do_pwrite(fd, data, off))
    }

    /// `writev(2)`: one write.
    pub fn writev(&self, fd: Fd, data: &[IoSlice<'_>]) -> Result<usize> {
        self.call(Call::Writev, || {
            self.check_parts(fd, data.len())?;
            self.do_write(fd, &gather(data))
        })
    }

    /// `pwritev(2)`: one write.
    pub fn pwritev(&self, fd: Fd, data: &[IoSlice<'_>], off: u64) -> Result<usize> {
        self.call(Call::Pwritev, || {
            check_offset(off)?;
            self.check_parts(fd, data.len())?;
            self.do_pwrite(fd, &gather(data), off)
        })
    }

    /// `EINVAL` for more buffers than `IOV_MAX`, once the descriptor is known to be open.
    fn check_parts(&self, fd: Fd, parts: usize) -> Result<()> {
        match parts > libc::UIO_MAXIOV as usize {
            true => self.with(fd, |_| Err(Errno::EINVAL)),
            false => Ok(()),
        }
    }

    fn do_write(&self, fd: Fd, data: &[u8]) -> Result<usize> {
        if data.len() > piece::BYTES {
            return self.write_long(fd, data, None);
        }
        self.with_position(fd, check_writable, |file, position| {
            check_range(*position, data.len())?;
            let (at, done) = self.run(|cx, g| write_at(cx, &file, *position, data, g))?;
            // Written bytes are not written again, even if they cannot be made durable.
            let synced = self.sync_written(&file);
            if done > 0 && synced.is_ok() {
                *position = at + done as u64;
            }
            Ok(synced.map(|()| done))
        })?
    }

    fn do_pwrite(&self, fd: Fd, data: &[u8], off: u64) -> Result<usize> {
        check_offset(off)?;
        if data.len() > piece::BYTES {
            return self.write_long(fd, data, Some(off));
        }
        let in_range = check_range(off, data.len());
        let (done, syncs) = self.run_on(fd, |cx, file, g| {
            check_writable(&file)?;
            in_range?;
            let (_, done) = write_at(cx, &file, off, data, g)?;
            Ok((done, file.is_synchronous().then(|| file.to_share())))
        })?;
        if let Some(file) = syncs {
            self.sync_written(&file)?;
        }
        Ok(done)
    }

    /// Runs `f` on the open file of `fd`. Where a backend may block, and for control files whose
    /// commands may take long, the file is counted, so that nothing is pinned meanwhile.
    pub(super) fn with<R>(&self, fd: Fd, mut f: impl FnMut(&OpenFile) -> Result<R>) -> Result<R> {
        let g = pin();
        if !self.sb().is_durable() {
            let done = self.on(fd, &g, |file| match file.control() {
                None => f(&file).map(Some),
                Some(_) => Ok(None),
            })?;
            if let Some(done) = done {
                return Ok(done);
            }
        }
        drop(g);
        self.with_counted(fd, |file| f(file))
    }

    /// Runs `f` on the open file of `fd`, counted, so that it may wait; see [`Process::on`].
    pub(super) fn with_counted<R>(
        &self,
        fd: Fd,
        mut f: impl FnMut(&Share<OpenFile>) -> Result<R>,
    ) -> Result<R> {
        loop {
            let file = self.counted(fd)?;
            match f(&file) {
                Err(Errno::EBADF) if file.is_finished() => {}
                done => return done,
            }
        }
    }

    /// Runs an operation on the open file of `fd`; see [`Process::on`].
    pub(super) fn run_on<R>(
        &self,
        fd: Fd,
        mut f: impl FnMut(&Ctx<'_>, Shared<'_, OpenFile>, &Guard) -> Attempt<R>,
    ) -> Result<R> {
        self.run(|cx, g| self.on(fd, g, |file| f(cx, file, g)))
    }

    /// The sync that `O_SYNC` and `O_DSYNC` require after a write.
    pub(super) fn sync_written(&self, file: &OpenFile) -> Result<()> {
        if !file.is_synchronous() {
            return Ok(());
        }
        match self.volume().vfs().fsync(file, false) {
            // Its last descriptor was closed since: which file it was is not known any more.
            Err(Errno::EBADF) if file.is_finished() => self.volume().sync(),
            synced => synced,
        }
    }
}

/// `EBADF` unless the file is open for reading.
pub(super) fn check_reads(file: &OpenFile) -> Result<&OpenFile> {
    if file.readable() {
        Ok(file)
    } else {
        Err(Errno::EBADF)
    }
}

/// Errors unless the file is open for reading and has contents.
pub(super) fn check_readable(file: &OpenFile) -> Result<&OpenFile> {
    if check_reads(file)?.kind() == Kind::Directory {
        Err(Errno::EISDIR)
    } else {
        Ok(file)
    }
}

pub(super) fn check_writable(file: &OpenFile) -> Result<&OpenFile> {
    if file.writable() {
        Ok(file)
    } else {
        Err(Errno::EBADF)
    }
}

pub(super) fn read_at(
    cx: &Ctx<'_>,
    file: &OpenFile,
    off: u64,
    out: &mut [u8],
    g: &Guard,
) -> Attempt<usize> {
    if let Some(control) = file.control() {
        return control.read(off, out);
    }
    let noatime = file.flags() & libc::O_NOATIME != 0;
    io::read(cx, file.inode(g)?, off, out, noatime, g)
}

fn readv_at(
    cx: &Ctx<'_>,
    file: &OpenFile,
    off: u64,
    outs: &mut [IoSliceMut<'_>],
    g: &Guard,
) -> Attempt<usize> {
    let Some(control) = file.control() else {
        let noatime = file.flags() & libc::O_NOATIME != 0;
        return io::read_vector(cx, file.inode(g)?, off, outs, noatime, g);
    };
    let mut total = 0;
    for out in outs {
        let got = match control.read(off + total as u64, out) {
            Ok(got) => got,
            Err(Stop::Errno(_)) if total > 0 => break,
            Err(stop) => return Err(stop),
        };
        total += got;
        if got < out.len() {
            break;
        }
    }
    Ok(total)
}

pub(super) fn write_at(
    cx: &Ctx<'_>,
    file: &OpenFile,
    off: u64,
    data: &[u8],
    g: &Guard,
) -> Attempt<(u64, usize)> {
    if let Some(control) = file.control() {
        return Ok((off, control.write(cx.sb, cx.caller, off, data)?));
    }
    let place = match file.flags() & libc::O_APPEND {
        0 => WriteAt::At(off),
        _ => WriteAt::End,
    };
    let kill = kills_suid(cx.caller);
    io::write(cx, file.inode(g)?, place, data, kill, g)
}

fn gather(parts: &[IoSlice<'_>]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.iter().copied()).collect()
}

pub(super) fn check_offset(off: u64) -> Result<()> {
    if off > MAX_SIZE {
        Err(Errno::EINVAL)
    } else {
        Ok(())
    }
}

/// `EINVAL` for a transfer that would end past the largest offset.
pub(super) fn check_range(off: u64, len: usize) -> Result<()> {
    if len as u64 > MAX_SIZE - off.min(MAX_SIZE) {
        Err(Errno::EINVAL)
    } else {
        Ok(())
    }
}
