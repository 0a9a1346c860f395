//! Descriptors: open, close, dup, position, size, sync.

use super::PyProcess;
use crate::amounts;
use crate::error;
use crate::gil;
use crate::path::PathArg;
use crate::stat::{Stat, StatVfs};
use hearth::Process;
use pyo3::prelude::*;

#[pymethods]
impl PyProcess {
    /// Opens the file at path; flags are those of os (O_RDONLY, O_CREAT, ...). Returns a
    /// descriptor of this Process.
    #[pyo3(signature = (path, flags, mode = 0o777))]
    fn open(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        flags: i32,
        mode: u16,
    ) -> PyResult<i32> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        // To empty a large file takes long.
        let moved = if flags & libc::O_TRUNC != 0 {
            gil::MUCH
        } else {
            0
        };
        path.check(self.moving(py, moved, |process| process.open(bytes, flags, mode))?)
    }

    /// Closes a descriptor.
    fn close(&self, py: Python<'_>, fd: i32) -> PyResult<()> {
        let done = self.brief(py, |process| process.close(fd))?;
        done.map_err(error::of)
    }

    /// Another descriptor of the same open file.
    fn dup(&self, py: Python<'_>, fd: i32) -> PyResult<i32> {
        let done = self.brief(py, |process| process.dup(fd))?;
        done.map_err(error::of)
    }

    /// Moves the position of a descriptor; whence is os.SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA
    /// or SEEK_HOLE. Returns the new position.
    #[pyo3(signature = (fd, offset, whence = 0))]
    fn lseek(&self, py: Python<'_>, fd: i32, offset: i64, whence: i32) -> PyResult<u64> {
        let done = self.brief(py, |process| process.lseek(fd, offset, whence))?;
        done.map_err(error::of)
    }

    /// Attributes of an open file.
    fn fstat(&self, py: Python<'_>, fd: i32) -> PyResult<Stat> {
        let attr = self.brief(py, |process| process.fstat(fd))?;
        attr.map(Stat::new).map_err(error::of)
    }

    /// Room of the volume of an open file.
    fn fstatvfs(&self, py: Python<'_>, fd: i32) -> PyResult<StatVfs> {
        let stat = self.brief(py, |process| process.fstatfs(fd))?;
        stat.map(StatVfs::from).map_err(error::of)
    }

    /// Cuts or extends an open file.
    fn ftruncate(&self, py: Python<'_>, fd: i32, length: i64) -> PyResult<()> {
        let length = amounts::offset(length).map_err(error::of)?;
        let done = self.released(py, |process| process.ftruncate(fd, length))?;
        done.map_err(error::of)
    }

    /// Gives an open file the room for length bytes from offset on.
    fn posix_fallocate(&self, py: Python<'_>, fd: i32, offset: i64, length: i64) -> PyResult<()> {
        let offset = amounts::offset(offset).map_err(error::of)?;
        let length = amounts::offset(length).map_err(error::of)?;
        let done = self.released(py, |process| process.fallocate(fd, 0, offset, length))?;
        done.map_err(error::of)
    }

    /// Returns when contents and attributes of an open file are durable.
    fn fsync(&self, py: Python<'_>, fd: i32) -> PyResult<()> {
        let done = self.released(py, |process| process.fsync(fd))?;
        done.map_err(error::of)
    }

    /// Returns when the contents of an open file are durable.
    fn fdatasync(&self, py: Python<'_>, fd: i32) -> PyResult<()> {
        let done = self.released(py, |process| process.fdatasync(fd))?;
        done.map_err(error::of)
    }

    /// The descriptors that are open, in their order.
    fn open_fds(&self, py: Python<'_>) -> PyResult<Vec<i32>> {
        self.brief(py, Process::open_fds)
    }
}
