//! Whole files in one call.

use super::PyProcess;
use crate::bytes;
use crate::path::PathArg;
use hearth::{Errno, Fd, Process};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

/// Memory for a file whose size is not known, or that has grown.
const STEP: usize = 64 << 10;

/// Memory for a file whose size is known: what is zeroed first is still in the caches when it is
/// read into.
const LARGE_STEP: usize = 1 << 20;

/// Most bytes of one step of a copy.
const COPY: u64 = 16 << 20;

#[pymethods]
impl PyProcess {
    /// The contents of the file at path, or the part from start to end.
    ///
    /// A negative start or end counts from the end of the file.
    #[pyo3(signature = (path, start = None, end = None))]
    fn read_bytes<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyAny>,
        start: Option<i64>,
        end: Option<i64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        let opened = self.brief(py, |process| open_to_read(process, bytes))?;
        let (fd, size) = path.check(opened)?;
        let file = Closing {
            process: self.process.get(),
            fd,
        };
        // A file without a size may be a control file, whose contents have none.
        if size == 0 {
            let all = self.released(py, move |process| {
                let all = read_rest(process, file.fd);
                drop(file);
                all
            })?;
            let all = path.check(all)?;
            let (start, end) = part(all.len() as u64, start, end);
            return Ok(PyBytes::new(py, &all[start as usize..end as usize]));
        }
        let (start, end) = part(size, start, end);
        let length = (end - start) as usize;
        let mut got = Ok(0);
        let read = &mut got;
        let out = PyBytes::new_with(py, length, move |out| {
            *read = self.moving(py, length, move |process| {
                let got = read_full(process, file.fd, out, start);
                drop(file);
                got
            })?;
            Ok(())
        })?;
        match path.check(got)? {
            got if got == length => Ok(out),
            got => Ok(PyBytes::new(py, &out.as_bytes()[..got])),
        }
    }

    /// Makes or empties the file at path and writes data to it. Returns how many bytes.
    #[pyo3(signature = (path, data, mode = 0o666))]
    fn write_bytes(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        mode: u16,
    ) -> PyResult<usize> {
        let path = PathArg::of(path)?;
        let data = bytes::given(data)?;
        let (bytes, data) = (path.bytes(), &*data);
        let done = self.moving(py, data.len(), |process| {
            write_whole(process, bytes, data, mode)
        })?;
        path.check(done)
    }

    /// Makes an empty file, or moves the times of one that is there to now, unless exist_ok is
    /// false.
    #[pyo3(signature = (path, mode = 0o666, exist_ok = true))]
    fn touch(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        mode: u16,
        exist_ok: bool,
    ) -> PyResult<()> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        let done = self.brief(py, |process| {
            match process.mknod(bytes, libc::S_IFREG | u32::from(mode & 0o7777), 0) {
                Err(Errno::EEXIST) if exist_ok => {
                    let now = Some(hearth::SetTime::Now);
                    process.utimensat(hearth::AT_FDCWD, bytes, now, now, 0)
                }
                done => done,
            }
        })?;
        path.check(done)
    }

    /// Copies the contents of the file at src to the file at dst, which is made or emptied.
    /// Returns how many bytes.
    fn copy(
        &self,
        py: Python<'_>,
        src: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let (src, dst) = (PathArg::of(src)?, PathArg::of(dst)?);
        let (from, to) = (src.bytes(), dst.bytes());
        let done = self.released(py, |process| copy_whole(process, from, to))?;
        src.check_to(done, &dst)
    }

    /// Opens the file at path as builtins.open() does: text or binary, buffered unless buffering
    /// is 0. The raw file below is a hearth_fs.File.
    #[pyo3(signature = (path, mode = "r", buffering = -1, encoding = None, errors = None,
        newline = None), text_signature = "($self, path, mode='r', buffering=-1, encoding=None, \
        errors=None, newline=None)")]
    fn file<'py>(
        slf: Bound<'py, PyProcess>,
        path: &Bound<'py, PyAny>,
        mode: &str,
        buffering: i64,
        encoding: Option<&str>,
        errors: Option<&str>,
        newline: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let open = py.import("hearth_fs._file")?.getattr("open_file")?;
        let arguments = PyTuple::new(py, [slf.as_any(), path])?;
        let named = PyDict::new(py);
        named.set_item("mode", mode)?;
        named.set_item("buffering", buffering)?;
        named.set_item("encoding", encoding)?;
        named.set_item("errors", errors)?;
        named.set_item("newline", newline)?;
        open.call(arguments, Some(&named))
    }
}

/// A descriptor that is closed at its end.
struct Closing<'a> {
    process: &'a Process,
    fd: Fd,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        // A file that was only read has nothing to lose.
        let _ = self.process.close(self.fd);
    }
}

fn open_to_read(process: &Process, path: &[u8]) -> Result<(Fd, u64), Errno> {
    let fd = process.open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0)?;
    match process.fstat(fd) {
        Ok(attr) if attr.kind != hearth::Kind::Directory => Ok((fd, attr.size)),
        failed => {
            let _ = process.close(fd);
            Err(failed.err().unwrap_or(Errno::EISDIR))
        }
    }
}

/// The bytes of `size` that a slice from `start` to `end` names.
fn part(size: u64, start: Option<i64>, end: Option<i64>) -> (u64, u64) {
    let place = |at: i64| match u64::try_from(at) {
        Ok(at) => at.min(size),
        Err(_) => size.saturating_sub(at.unsigned_abs()),
    };
    let start = start.map_or(0, place);
    (start, end.map_or(size, place).max(start))
}

/// Reads until `out` is full or the file ends.
fn read_full(process: &Process, fd: Fd, out: &mut [u8], start: u64) -> Result<usize, Errno> {
    let mut got = 0;
    while got < out.len() {
        match process.pread(fd, &mut out[got..], start + got as u64)? {
            0 => break,
            more => got += more,
        }
    }
    Ok(got)
}

/// Reads to the end of the file. `ENOMEM` where there is no memory for it.
fn read_rest(process: &Process, fd: Fd) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    while read_more(process, fd, &mut all, STEP)? == STEP {}
    Ok(all)
}

/// The whole of the file at `path`. `ENOMEM` where there is no memory for it: a sparse file may be
/// larger than any memory.
pub fn read_whole(process: &Process, path: &[u8]) -> Result<Vec<u8>, Errno> {
    let (fd, size) = open_to_read(process, path)?;
    let _file = Closing { process, fd };
    if size == 0 {
        return read_rest(process, fd);
    }
    let size = usize::try_from(size).map_err(|_| Errno::ENOMEM)?;
    let mut all = Vec::new();
    all.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
    while all.len() < size {
        let step = LARGE_STEP.min(size - all.len());
        if read_more(process, fd, &mut all, step)? < step {
            break;
        }
    }
    Ok(all)
}

/// Reads at most `step` bytes behind those that `all` has.
fn read_more(process: &Process, fd: Fd, all: &mut Vec<u8>, step: usize) -> Result<usize, Errno> {
    let before = all.len();
    all.try_reserve(step).map_err(|_| Errno::ENOMEM)?;
    all.resize(before + step, 0);
    let got = read_full(process, fd, &mut all[before..], before as u64)?;
    all.truncate(before + got);
    Ok(got)
}

/// Makes or empties the file at `path` and writes all of `data`.
pub fn write_whole(process: &Process, path: &[u8], data: &[u8], mode: u16) -> Result<usize, Errno> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
    let fd = process.open(path, flags, mode)?;
    let mut done = 0;
    while done < data.len() {
        match process.pwrite(fd, &data[done..], done as u64) {
            Ok(more) => done += more,
            Err(errno) => {
                let _ = process.close(fd);
                return Err(errno);
            }
        }
    }
    process.close(fd).map(|()| done)
}

fn copy_whole(process: &Process, from: &[u8], to: &[u8]) -> Result<u64, Errno> {
    let (source, _) = open_to_read(process, from)?;
    let source = Closing {
        process,
        fd: source,
    };
    let mode = process.fstat(source.fd)?.perm & 0o777;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
    let target = Closing {
        process,
        fd: process.open(to, flags, mode)?,
    };
    let (a, b) = (process.fstat(source.fd)?, process.fstat(target.fd)?);
    if (a.ino, a.generation) == (b.ino, b.generation) {
        return Ok(a.size);
    }
    process.ftruncate(target.fd, 0)?;
    let mut done = 0;
    loop {
        let (mut from, mut to) = (done, done);
        let (from, to) = ((source.fd, Some(&mut from)), (target.fd, Some(&mut to)));
        match process.copy_file_range(from, to, COPY, 0)? {
            0 => return Ok(done),
            more => done += more,
        }
    }
}
