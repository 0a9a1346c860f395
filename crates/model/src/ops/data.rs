//! Reading, writing, seeking and syncing.

use libc::{EBADF, EFBIG, EINVAL, EISDIR, ENXIO, O_APPEND, O_NOATIME};
use libc::{SEEK_CUR, SEEK_DATA, SEEK_END, SEEK_HOLE, SEEK_SET};

use crate::bytes::Bytes;
use crate::data::{Found, MAX};
use crate::model::{Answer, Model};
use crate::node::NodeId;
use crate::op::Fd;
use crate::outcome::Outcome;

impl Model {
    pub(crate) fn read(&mut self, p: usize, fd: Fd, lens: &[usize]) -> Answer {
        let offset = self.file(p, fd)?.offset;
        let data = self.read_bytes(p, fd, offset, lens.iter().sum())?;
        if lens.iter().all(|len| *len == 0) {
            return Ok(Outcome::Unspecified);
        }
        self.file_mut(p, fd)?.offset = offset + data.len() as u64;
        Ok(Outcome::Data(Bytes(data)))
    }

    pub(crate) fn read_at(&mut self, p: usize, fd: Fd, lens: &[usize], offset: i64) -> Answer {
        let offset = u64::try_from(offset).map_err(|_| EINVAL)?;
        let data = self.read_bytes(p, fd, offset, lens.iter().sum())?;
        if lens.iter().all(|len| *len == 0) {
            return Ok(Outcome::Unspecified);
        }
        Ok(Outcome::Data(Bytes(data)))
    }

    /// `readv` and `preadv`: without space in the buffers the file is not read.
    pub(crate) fn read_vector(
        &mut self,
        p: usize,
        fd: Fd,
        lens: &[usize],
        at: Option<i64>,
    ) -> Answer {
        if at.is_some_and(|at| at < 0) {
            return Err(EINVAL);
        }
        if lens.iter().all(|len| *len == 0) {
            let readable = self.file(p, fd)?.readable();
            return if readable {
                Ok(Outcome::Data(Bytes::default()))
            } else {
                Err(EBADF)
            };
        }
        match at {
            None => self.read(p, fd, lens),
            Some(at) => self.read_at(p, fd, lens, at),
        }
    }

    pub(crate) fn write(&mut self, p: usize, fd: Fd, data: &[u8]) -> Answer {
        let offset = self.file(p, fd)?.offset;
        if self.is_frozen(p, fd)? {
            return Ok(Outcome::Unspecified);
        }
        let (count, end) = self.write_bytes(p, fd, offset, data)?;
        self.file_mut(p, fd)?.offset = end;
        Ok(Outcome::Number(count))
    }

    pub(crate) fn write_at(&mut self, p: usize, fd: Fd, data: &[u8], offset: i64) -> Answer {
        let offset = u64::try_from(offset).map_err(|_| EINVAL)?;
        if self.is_frozen(p, fd)? {
            return Ok(Outcome::Unspecified);
        }
        Ok(Outcome::Number(self.write_bytes(p, fd, offset, data)?.0))
    }

    pub(crate) fn seek(&mut self, p: usize, fd: Fd, offset: i64, whence: i32) -> Answer {
        let file = self.file(p, fd)?;
        let node = self.node(file.node);
        if !(SEEK_SET..=SEEK_HOLE).contains(&whence) {
            return Err(EINVAL);
        }
        let Some(pages) = node.pages() else {
            // Positions in a directory are cookies; only the start means the same in every system.
            return Ok(match (whence, offset) {
                (SEEK_SET, 0) => Outcome::Number(0),
                _ => Outcome::Unspecified,
            });
        };
        let to = match whence {
            SEEK_SET => offset,
            SEEK_CUR => (file.offset as i64).checked_add(offset).ok_or(EINVAL)?,
            SEEK_END => (pages.size() as i64).checked_add(offset).ok_or(EINVAL)?,
            _ => match pages.seek(
                u64::try_from(offset).map_err(|_| ENXIO)?,
                whence == SEEK_DATA,
            ) {
                Found::At(at) => at as i64,
                Found::Nothing => return Err(ENXIO),
                Found::Unspecified => return Ok(Outcome::Unspecified),
            },
        };
        let to = u64::try_from(to).map_err(|_| EINVAL)?;
        self.file_mut(p, fd)?.offset = to;
        Ok(Outcome::Number(to))
    }

    pub(crate) fn sync(&mut self, p: usize, fd: Fd) -> Answer {
        self.file(p, fd).map(|_| Outcome::Done)
    }

    pub(crate) fn sync_fs(&mut self, p: usize, fd: Fd) -> Answer {
        self.file(p, fd).map(|_| Outcome::Done)
    }

    /// A file that became immutable while it was open for writing: tmpfs writes, ext4 refuses.
    pub(crate) fn is_frozen(&self, p: usize, fd: Fd) -> Answer<bool> {
        let file = self.file(p, fd)?;
        Ok(file.writable() && self.node(file.node).immutable())
    }

    fn read_bytes(&mut self, p: usize, fd: Fd, offset: u64, len: usize) -> Answer<Vec<u8>> {
        let file = self.file(p, fd)?.clone();
        if !file.readable() {
            return Err(EBADF);
        }
        check_range(offset, len)?;
        let data = self
            .node(file.node)
            .pages()
            .ok_or(EISDIR)?
            .read(offset, len);
        // Whether a read of nothing moves the access time is the filesystem's choice.
        if file.flags & O_NOATIME == 0 && len > 0 {
            self.node_mut(file.node).accessed();
        }
        Ok(data)
    }

    /// Writes and returns the count and the offset behind it.
    fn write_bytes(&mut self, p: usize, fd: Fd, offset: u64, data: &[u8]) -> Answer<(u64, u64)> {
        let file = self.file(p, fd)?.clone();
        if !file.writable() {
            return Err(EBADF);
        }
        check_range(offset, data.len())?;
        let size = self.node(file.node).pages().ok_or(EINVAL)?.size();
        if data.is_empty() {
            return Ok((0, offset));
        }
        let offset = if file.flags & O_APPEND != 0 {
            size
        } else {
            offset
        };
        if offset >= MAX {
            return Err(EFBIG);
        }
        let count = (MAX - offset).min(data.len() as u64);
        self.change_data(p, file.node);
        let pages = self.node_mut(file.node).pages_mut().expect("checked above");
        pages.write(offset, &data[..count as usize]);
        Ok((count, offset + count))
    }

    /// The other effects of every change of data.
    pub(crate) fn change_data(&mut self, p: usize, node: NodeId) {
        self.strip_privileges(p, node);
        self.node_mut(node).modified();
    }
}

/// A transfer must end at an offset that exists.
fn check_range(offset: u64, len: usize) -> Answer<()> {
    if offset + len as u64 > MAX {
        Err(EINVAL)
    } else {
        Ok(())
    }
}
