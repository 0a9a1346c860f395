//! Seeking, sizes, copies between files, and durability.

use super::files::check_offset;
use super::position::lock_positions;
use super::{AT_FDCWD, Fd, Process};
use crate::attr::{Kind, SetAttr};
use crate::calls::Call;
use crate::data::MAX_SIZE;
use crate::errno::{Errno, Result};
use crate::ops::attr;
use crate::ops::open::OpenFile;
use crate::ops::range::{self, Copying, copy};
use crate::walk::Follow;
use hearth_sync::epoch::pin;

impl Process {
    /// `lseek(2)`, including `SEEK_DATA` and `SEEK_HOLE`. A directory's offset is a cookie, and has
    /// no end (`EINVAL`).
    pub fn lseek(&self, fd: Fd, off: i64, whence: i32) -> Result<u64> {
        self.call(Call::Lseek, || {
            self.with_position(fd, check_seekable, |file, position| {
                let new = match whence {
                    libc::SEEK_END | libc::SEEK_DATA | libc::SEEK_HOLE
                        if file.kind() == Kind::Directory =>
                    {
                        return Err(Errno::EINVAL);
                    }
                    libc::SEEK_SET => u64::try_from(off).map_err(|_| Errno::EINVAL)?,
                    libc::SEEK_CUR => moved(*position, off)?,
                    libc::SEEK_END => self.run(|_, g| {
                        let end = file.inode(g)?.meta.size();
                        Ok(moved(end, off)?)
                    })?,
                    libc::SEEK_DATA | libc::SEEK_HOLE => {
                        let from = u64::try_from(off).map_err(|_| Errno::ENXIO)?;
                        let hole = whence == libc::SEEK_HOLE;
                        self.run(|_, g| range::seek(file.inode(g)?, from, hole, g))?
                    }
                    _ => return Err(Errno::EINVAL),
                };
                *position = new;
                Ok(new)
            })
        })
    }

    /// `ftruncate(2)`.
    pub fn ftruncate(&self, fd: Fd, size: u64) -> Result<()> {
        self.call(Call::Ftruncate, || {
            check_offset(size)?;
            let set = SetAttr {
                size: Some(size),
                ..SetAttr::default()
            };
            self.run_on(fd, |cx, file, g| {
                if !file.writable() || file.kind() != Kind::File {
                    return Err(Errno::EINVAL.into());
                }
                attr::setattr(cx, file.inode(g)?, &set, true, g)
            })
        })
    }

    /// `truncate(2)`.
    pub fn truncate(&self, path: impl AsRef<[u8]>, size: u64) -> Result<()> {
        self.call(Call::Truncate, || {
            check_offset(size)?;
            let set = SetAttr {
                size: Some(size),
                ..SetAttr::default()
            };
            self.at(AT_FDCWD, path.as_ref(), Follow::Yes, |cx, walked, g| {
                attr::setattr(cx, walked.existing()?, &set, false, g)
            })
        })
    }

    /// `fallocate(2)`.
    pub fn fallocate(&self, fd: Fd, mode: i32, off: u64, len: u64) -> Result<()> {
        self.call(Call::Fallocate, || {
            let file = loop {
                // All steps are of one file, whatever the descriptor names meanwhile.
                let file = self.counted(fd)?;
                match self.allocate(&file, mode, off, len) {
                    // Like in `Process::on`.
                    Err(Errno::EBADF) if file.is_finished() => {}
                    done => break done.map(|()| file)?,
                }
            };
            self.sync_written(&file)
        })
    }

    fn allocate(&self, file: &OpenFile, mode: i32, off: u64, len: u64) -> Result<()> {
        range::check_request(mode, off, len)?;
        if !file.writable() {
            return Err(Errno::EBADF);
        }
        range::steps(mode, off, len)
            .try_for_each(|step| self.run(|cx, g| range::make_step(cx, file.inode(g)?, &step, g)))
    }

    /// `copy_file_range(2)`: an explicit offset moves instead of the file's.
    pub fn copy_file_range(
        &self,
        from: (Fd, Option<&mut u64>),
        to: (Fd, Option<&mut u64>),
        len: u64,
        flags: u32,
    ) -> Result<u64> {
        self.call(Call::CopyFileRange, || {
            let (target, copied) = loop {
                let (source, target) = (self.counted(from.0)?, self.counted(to.0)?);
                let copied = check_copy(&source, &target, flags).and_then(|()| {
                    let (own_from, own_to) = (from.1.is_none(), to.1.is_none());
                    // Held to the end: with one that is gone by then nothing could be said.
                    let mut held =
                        lock_positions([own_from.then_some(&*source), own_to.then_some(&*target)])?;
                    let mut own = held.iter().flatten().map(|position| **position);
                    let (first, last) = (own.clone().next(), own.next_back());
                    let offsets = (
                        from.1.as_deref().copied().or(first).unwrap_or_default(),
                        to.1.as_deref().copied().or(last).unwrap_or_default(),
                    );
                    let noatime = source.flags() & libc::O_NOATIME != 0;
                    let copied = Copying::new(offsets, len, noatime).in_pieces(|copying| {
                        self.run(|cx, g| copy(cx, source.inode(g)?, target.inode(g)?, copying, g))
                    })?;
                    let moved = held.iter_mut().flatten();
                    moved.for_each(|position| **position += copied);
                    Ok(copied)
                });
                // Like in `Process::on`.
                let is_late = source.is_finished() || target.is_finished();
                if !is_late || copied != Err(Errno::EBADF) {
                    break (target, copied?);
                }
            };
            for given in [from.1, to.1].into_iter().flatten() {
                *given += copied;
            }
            self.sync_written(&target)?;
            Ok(copied)
        })
    }

    /// `fsync(2)`. `EDEADLK` inside a callback of the library, such as that of
    /// [`Process::getdents`]: return from it first.
    pub fn fsync(&self, fd: Fd) -> Result<()> {
        self.call(Call::Fsync, || {
            self.with_counted(fd, |file| self.volume().vfs().fsync(file, false))
        })
    }

    /// `fdatasync(2)`.
    pub fn fdatasync(&self, fd: Fd) -> Result<()> {
        self.call(Call::Fdatasync, || {
            self.with_counted(fd, |file| self.volume().vfs().fsync(file, true))
        })
    }

    /// `syncfs(2)`.
    pub fn syncfs(&self, fd: Fd) -> Result<()> {
        self.call(Call::Syncfs, || {
            self.usable_file(fd, &pin())?;
            self.volume().sync()
        })
    }
}

fn check_copy(source: &OpenFile, target: &OpenFile, flags: u32) -> Result<()> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    if source.kind() == Kind::Directory || target.kind() == Kind::Directory {
        return Err(Errno::EISDIR);
    }
    if source.kind() != Kind::File || target.kind() != Kind::File {
        return Err(Errno::EINVAL);
    }
    let append = target.flags() & libc::O_APPEND != 0;
    if !source.readable() || !target.writable() || append {
        return Err(Errno::EBADF);
    }
    Ok(())
}

/// `ESPIPE` unless the file has an offset.
fn check_seekable(file: &OpenFile) -> Result<&OpenFile> {
    match file.kind() {
        Kind::Fifo | Kind::Socket => Err(Errno::ESPIPE),
        _ => Ok(file),
    }
}

fn moved(from: u64, by: i64) -> Result<u64> {
    let new = i128::from(from) + i128::from(by);
    u64::try_from(new)
        .ok()
        .filter(|new| *new <= MAX_SIZE)
        .ok_or(Errno::EINVAL)
}
