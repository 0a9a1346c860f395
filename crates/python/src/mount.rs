//! Mounts that this process serves.

use crate::error;
use crate::fork::{self, Held};
use crate::opened::SharedHandle;
use crate::path;
use hearth_fuse::Session;
use hearth_sync::primitive::Arc;
use pyo3::prelude::*;
use std::os::unix::ffi::OsStrExt;

/// A mount that threads of this process serve. A context manager that unmounts at its end.
#[pyclass(frozen, module = "hearth_fs")]
pub struct Mount {
    volume: SharedHandle,
    session: Held<Arc<Session>>,
}

impl Mount {
    pub fn new(volume: SharedHandle, session: Arc<Session>) -> Mount {
        Mount {
            volume,
            session: Held::new(session),
        }
    }
}

#[pymethods]
impl Mount {
    /// The directory, absolute and without symbolic links.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let place = self.session.get().mountpoint();
        path::decoded(py, place.as_os_str().as_bytes(), false)
    }

    /// How requests come from the kernel: "uring" or "dev".
    #[getter]
    fn transport(&self) -> &str {
        self.session.get().transport()
    }

    /// Unmounts. Who uses the mount gets a moment to finish; then their calls fail.
    fn unmount(&self, py: Python<'_>) -> PyResult<()> {
        if fork::is_forked_now() {
            return Err(error::forked());
        }
        if self.volume.get().opened().is_err() {
            // Whoever closed the volume has unmounted it.
            return Ok(());
        }
        let (opened, session) = (self.volume.get().opened()?, self.session.get());
        let place = session.mountpoint().display().to_string();
        let done = py.detach(|| opened.unmount(session));
        done.map_err(|error| error::of_mount(&error, &place))
    }

    fn __enter__(slf: Bound<'_, Mount>) -> Bound<'_, Mount> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.unmount(py)
    }

    fn __repr__(&self) -> String {
        let place = self.session.get().mountpoint().display();
        format!("<hearth_fs.Mount '{place}'>")
    }
}
