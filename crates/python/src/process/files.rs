//! Contents of open files.

use super::PyProcess;
use crate::amounts;
use crate::bytes::{self, Target};
use crate::error;
use hearth::{Errno, Process};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Most bytes that one read moves through memory of ours.
const READ_MOST: usize = 0x7fff_f000;

#[pymethods]
impl PyProcess {
    /// Reads at most length bytes from the position of a descriptor.
    fn read<'py>(&self, py: Python<'py>, fd: i32, length: i64) -> PyResult<Bound<'py, PyBytes>> {
        self.read_with(py, fd, length, |process, out| process.read(fd, out))
    }

    /// Reads at most length bytes at offset; the position of the descriptor stays.
    fn pread<'py>(
        &self,
        py: Python<'py>,
        fd: i32,
        length: i64,
        offset: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let offset = amounts::offset(offset).map_err(error::of)?;
        self.read_with(py, fd, length, |process, out| {
            process.pread(fd, out, offset)
        })
    }

    /// Reads into a writable buffer, from the position of a descriptor or at offset. Returns how
    /// many bytes came.
    #[pyo3(signature = (fd, buffer, offset = None))]
    fn readinto(
        &self,
        py: Python<'_>,
        fd: i32,
        buffer: &Bound<'_, PyAny>,
        offset: Option<i64>,
    ) -> PyResult<usize> {
        let offset = offset.map(amounts::offset).transpose().map_err(error::of)?;
        let target = Target::of(buffer)?;
        let mut own = bytes::zeroed(target.len().min(READ_MOST))?;
        let out = &mut own;
        let got = self.moving(py, out.len(), |process| match offset {
            Some(offset) => process.pread(fd, out, offset),
            None => process.read(fd, out),
        })?;
        let got = got.map_err(error::of)?;
        target.fill(&own[..got])?;
        Ok(got)
    }

    /// Writes data at the position of a descriptor. Returns how many bytes were taken.
    fn write(&self, py: Python<'_>, fd: i32, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let data = bytes::given(data)?;
        let data = &*data;
        let done = self.moving(py, data.len(), |process| process.write(fd, data))?;
        done.map_err(error::of)
    }

    /// Writes data at offset; the position of the descriptor stays. Returns how many bytes were
    /// taken.
    fn pwrite(
        &self,
        py: Python<'_>,
        fd: i32,
        data: &Bound<'_, PyAny>,
        offset: i64,
    ) -> PyResult<usize> {
        let offset = amounts::offset(offset).map_err(error::of)?;
        let data = bytes::given(data)?;
        let data = &*data;
        let done = self.moving(py, data.len(), |process| process.pwrite(fd, data, offset))?;
        done.map_err(error::of)
    }

    /// Copies at most length bytes from one open file to another inside the volume, from their
    /// positions or from offsets. Returns how many bytes were copied.
    #[pyo3(signature = (src, dst, length, offset_src = None, offset_dst = None))]
    fn copy_file_range(
        &self,
        py: Python<'_>,
        src: i32,
        dst: i32,
        length: i64,
        offset_src: Option<i64>,
        offset_dst: Option<i64>,
    ) -> PyResult<u64> {
        let negative = |_| PyValueError::new_err("negative value for 'length' not allowed");
        let length = u64::try_from(length).map_err(negative)?;
        let place = |at: Option<i64>| at.map(amounts::offset).transpose().map_err(error::of);
        let (offset_src, offset_dst) = (place(offset_src)?, place(offset_dst)?);
        let done = self.released(py, |process| {
            let (mut from, mut to) = (offset_src, offset_dst);
            process.copy_file_range((src, from.as_mut()), (dst, to.as_mut()), length, 0)
        })?;
        done.map_err(error::of)
    }
}

impl PyProcess {
    /// Reads into new `bytes`, which are cut if less came.
    fn read_with<'py>(
        &self,
        py: Python<'py>,
        fd: i32,
        length: i64,
        read: impl FnOnce(&Process, &mut [u8]) -> Result<usize, Errno> + Send,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let length = amounts::offset(length).map_err(error::of)?;
        let length = usize::try_from(length).unwrap_or(READ_MOST);
        let length = self.at_most(py, fd, length.min(READ_MOST))?;
        let mut got = 0;
        let out = PyBytes::new_with(py, length, |out| {
            let read = self.moving(py, length, |process| read(process, out))?;
            got = read.map_err(error::of)?;
            Ok(())
        })?;
        if got == length {
            return Ok(out);
        }
        Ok(PyBytes::new(py, &out.as_bytes()[..got]))
    }

    /// `length`, or less if so much is not there: memory is not taken for what cannot come.
    fn at_most(&self, py: Python<'_>, fd: i32, length: usize) -> PyResult<usize> {
        const SMALL: usize = 64 << 10;
        if length <= SMALL {
            return Ok(length);
        }
        let attr = self.brief(py, |process| process.fstat(fd))?;
        // The contents of control files have no size.
        let size = attr.map_or(0, |attr| attr.size as usize);
        Ok(length.min(size.max(SMALL)))
    }
}
