//! Volumes.

use crate::error;
use crate::fork::{self, Held};
use crate::heat::Heat;
use crate::identity;
use crate::mount::Mount;
use crate::opened::{Handle, Interpreter, Opened, SharedHandle};
use crate::path::PathArg;
use crate::process::PyProcess;
use crate::quota::Quota;
use crate::stats;
use crate::unwritten;
use hearth::Errno;
use hearth_fuse::{MountOptions, Session};
use hearth_sync::primitive::Arc;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A volume that is open in this process.
///
/// Made by hearth_fs.open(). Use it as a context manager, or call close(): the last Volume of a
/// store that is closed makes its changes durable and frees its directory for others.
#[pyclass(frozen, module = "hearth_fs", name = "Volume")]
pub struct PyVolume {
    handle: SharedHandle,
}

/// Opens a volume.
///
/// source is "memory:" or "store:DIR", with options behind a question mark, separated by commas:
/// "memory:?size=1GiB,hot_track", "store:/srv/v?compress=zstd". A store is open once in a
/// process: opening it again gives another Volume of it, and needs the same options. Each
/// "memory:" is a volume of its own. create makes a store of a directory that is new or empty.
///
/// Raises OSError: EINVAL for a source or an option that is not known, EBUSY for a store that
/// somebody else has open.
#[pyfunction]
#[pyo3(signature = (source, *, create = false, read_only = false))]
pub fn open(py: Python<'_>, source: &str, create: bool, read_only: bool) -> PyResult<PyVolume> {
    if fork::is_forked_now() {
        return Err(error::forked());
    }
    let interpreter = Interpreter::of(py)?;
    let handle = py.detach(|| Handle::open(interpreter, source, create, read_only))?;
    Ok(PyVolume {
        handle: Arc::new(Held::new(handle)),
    })
}

impl PyVolume {
    pub fn opened(&self) -> PyResult<&Opened> {
        self.handle.get().opened()
    }
}

#[pymethods]
impl PyVolume {
    /// A user of the volume: working directory "/", umask 022.
    ///
    /// Without arguments it has the effective user and the groups of this process; with uid or
    /// gid, no supplementary groups but those given.
    #[pyo3(signature = (uid = None, gid = None, groups = None))]
    fn process(
        &self,
        uid: Option<u32>,
        gid: Option<u32>,
        groups: Option<Vec<u32>>,
    ) -> PyResult<PyProcess> {
        let credentials = identity::credentials(uid, gid, groups).map_err(error::of)?;
        let process = self.opened()?.volume().process(credentials);
        Ok(PyProcess::new(Arc::clone(&self.handle), process))
    }

    /// The quotas of the volume.
    #[getter]
    fn quota(&self) -> Quota {
        Quota::new(Arc::clone(&self.handle))
    }

    /// Which files and ranges are hot.
    #[getter]
    fn heat(&self) -> Heat {
        Heat::new(Arc::clone(&self.handle))
    }

    /// The source that it was opened with.
    #[getter]
    fn source(&self) -> &str {
        self.handle.get().source()
    }

    /// Whether close() was called.
    #[getter]
    fn closed(&self) -> bool {
        self.handle.get().is_closed()
    }

    /// Whether changes are refused.
    #[getter]
    fn read_only(&self) -> PyResult<bool> {
        Ok(self.opened()?.volume().read_only())
    }

    /// Counts of calls, operations of mounts and events, and what the volume holds.
    ///
    /// {"calls": {name: {"count": n, "errors": n}}, "operations": {name: {"count": n,
    /// "errors": n, "ns": n}}, "events": {name: n}, "gauges": {name: n}}; what never happened is
    /// left out of the first three.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let volume = self.opened()?.volume();
        let gauges = py.detach(|| volume.gauges());
        stats::dict(py, volume.stats(), &gauges)
    }

    /// Writes everything back and returns when it is durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let volume = self.opened()?.volume();
        py.detach(|| volume.sync()).map_err(error::of)
    }

    /// Serves the volume on an empty directory by threads of this process, until unmount() of
    /// what is returned, or close().
    ///
    /// options are those of `hearth mount -o`. Raises OSError with the reason and the remedy: EBUSY
    /// if this process has mounted the volume already.
    #[pyo3(signature = (mountpoint, *options))]
    fn mount(
        &self,
        py: Python<'_>,
        mountpoint: &Bound<'_, PyAny>,
        options: Vec<String>,
    ) -> PyResult<Mount> {
        if fork::is_forked_now() {
            return Err(error::forked());
        }
        let opened = self.opened()?;
        let options = MountOptions::parse(&options);
        let options = options.map_err(|error| error::because(Errno::EINVAL, error))?;
        let path = PathArg::of(mountpoint)?;
        let place = Path::new(OsStr::from_bytes(path.bytes()));
        let begin = |volume| Session::start(volume, place, options);
        let mounted = py.detach(|| opened.mount(begin));
        let shown = place.display().to_string();
        let session = mounted.map_err(|error| error::of_mount(&error, &shown))?;
        Ok(Mount::new(Arc::clone(&self.handle), session))
    }

    /// Ends this use of the volume: file objects of its processes write what they hold. The last
    /// use unmounts what this process has mounted of the volume, makes changes durable and frees a
    /// store's directory. Doing it again does nothing.
    ///
    /// Raises the first error, after all was done that can be done.
    fn close(slf: &Bound<'_, PyVolume>) -> PyResult<()> {
        let (py, handle) = (slf.py(), slf.get().handle.get());
        if fork::is_forked_now() {
            return Err(error::forked());
        }
        let unwritten = match handle.is_closed() {
            true => Ok(None),
            false => unwritten::write_of(slf),
        };
        let unwritten = unwritten.unwrap_or_else(Some);
        let closed = py.detach(|| handle.close()).map_err(|e| e.into_python());
        match (closed, unwritten) {
            (Err(error), unwritten) => {
                error.set_cause(py, unwritten);
                Err(error)
            }
            (Ok(()), Some(unwritten)) => Err(unwritten),
            (Ok(()), None) => Ok(()),
        }
    }

    /// Whether a process is of this use of the volume.
    fn _has(&self, process: &PyProcess) -> bool {
        Arc::ptr_eq(&self.handle, process.handle())
    }

    fn __enter__(slf: Bound<'_, PyVolume>) -> PyResult<Bound<'_, PyVolume>> {
        slf.get().opened()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(slf: &Bound<'_, PyVolume>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        PyVolume::close(slf)
    }

    /// With its address: fsspec tells storage options apart by what they show.
    fn __repr__(slf: Bound<'_, PyVolume>) -> String {
        let volume = slf.get();
        let state = if volume.closed() { " (closed)" } else { "" };
        let (source, address) = (volume.handle.get().source(), slf.as_ptr());
        format!("<hearth_fs.Volume '{source}'{state} at {address:p}>")
    }
}

#[pymethods]
impl PyProcess {
    /// The volume.
    #[getter]
    fn volume(&self) -> PyVolume {
        PyVolume {
            handle: Arc::clone(self.handle()),
        }
    }
}
