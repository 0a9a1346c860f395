//! A user of a volume: paths and descriptors, one file for each family of calls.

mod batch;
mod descriptors;
mod directories;
mod files;
mod links;
mod lock;
mod metadata;
mod whole;

use crate::error;
use crate::fork::Held;
use crate::gil;
use crate::opened::{Opened, SharedHandle};
use hearth::Process;
use pyo3::prelude::*;

/// A user of a volume, with credentials, a working directory, a umask and descriptors.
///
/// Made by Volume.process(). Its methods are the calls of os with the same names: paths are str,
/// bytes or os.PathLike, errors are OSError with errno and filename. Descriptors belong to the
/// Process, and mean nothing to os. Threads may share it.
#[pyclass(frozen, module = "hearth_fs", name = "Process")]
pub struct PyProcess {
    volume: SharedHandle,
    process: Held<Process>,
}

impl PyProcess {
    pub fn new(volume: SharedHandle, process: Process) -> PyProcess {
        PyProcess {
            volume,
            process: Held::new(process),
        }
    }

    /// The use of the volume.
    pub fn handle(&self) -> &SharedHandle {
        &self.volume
    }

    #[inline]
    fn opened(&self) -> PyResult<&Opened> {
        self.volume.get().opened()
    }

    /// Runs a call of about a microsecond: with the interpreter's lock, unless the volume may make
    /// it wait.
    #[inline]
    fn brief<T, F>(&self, py: Python<'_>, f: F) -> PyResult<T>
    where
        F: Send + FnOnce(&Process) -> T,
        T: Send,
    {
        let released = self.opened()?.may_wait();
        let process = self.process.get();
        Ok(gil::run(py, released, || f(process)))
    }

    /// Runs a call that moves `bytes`.
    #[inline]
    fn moving<T, F>(&self, py: Python<'_>, bytes: usize, f: F) -> PyResult<T>
    where
        F: Send + FnOnce(&Process) -> T,
        T: Send,
    {
        let released = self.opened()?.may_wait() || bytes >= gil::MUCH;
        let process = self.process.get();
        Ok(gil::run(py, released, || f(process)))
    }

    /// Runs a batch of about `ns` nanoseconds.
    fn batched<T, F>(&self, py: Python<'_>, ns: usize, f: F) -> PyResult<T>
    where
        F: Send + FnOnce(&Process) -> T,
        T: Send,
    {
        let released = self.opened()?.may_wait() || ns >= gil::LONG_NS;
        let process = self.process.get();
        Ok(gil::run(py, released, || f(process)))
    }

    /// Runs a call that may wait or take long, without the interpreter's lock.
    fn released<T, F>(&self, py: Python<'_>, f: F) -> PyResult<T>
    where
        F: Send + FnOnce(&Process) -> T,
        T: Send,
    {
        self.opened()?;
        let process = self.process.get();
        Ok(gil::run(py, true, || f(process)))
    }
}

#[pymethods]
impl PyProcess {
    /// Effective user.
    #[getter]
    fn uid(&self, py: Python<'_>) -> PyResult<u32> {
        self.brief(py, |process| process.credentials().uid)
    }

    /// Effective group.
    #[getter]
    fn gid(&self, py: Python<'_>) -> PyResult<u32> {
        self.brief(py, |process| process.credentials().gid)
    }

    /// Sets the file mode creation mask and returns the old one.
    fn umask(&self, py: Python<'_>, mask: u16) -> PyResult<u16> {
        self.brief(py, |process| process.umask(mask))
    }

    /// Changes the working directory.
    fn chdir(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let path = crate::path::PathArg::of(path)?;
        let bytes = path.bytes();
        path.check(self.brief(py, |process| process.chdir(bytes))?)
    }

    /// The working directory.
    fn getcwd<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let path = self.released(py, Process::getcwd)?.map_err(error::of)?;
        crate::path::decoded(py, &path, false)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<hearth_fs.Process uid={}>", self.uid(py)?))
    }
}
