//! Listings.

use super::PyProcess;
use crate::entry::{DirEntry, FoundEntry};
use crate::path::{PathArg, decoded};
use hearth::{Errno, Kind, Process};
use pyo3::prelude::*;

#[pymethods]
impl PyProcess {
    /// The names in a directory, without "." and "..".
    #[pyo3(signature = (path = None))]
    fn listdir<'py>(
        &self,
        py: Python<'py>,
        path: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let given = or_here(py, path);
        let path = PathArg::of(&given)?;
        let bytes = path.bytes();
        let found = self.released(py, |process| process.read_dir(bytes))?;
        let as_bytes = path.is_bytes();
        let entries = path.check(found)?.into_iter();
        entries
            .map(|entry| decoded(py, &entry.name, as_bytes))
            .collect()
    }

    /// The entries of a directory with their attributes, without "." and "..": a list. What is
    /// removed meanwhile is left out.
    #[pyo3(signature = (path = None))]
    fn scandir(&self, py: Python<'_>, path: Option<Bound<'_, PyAny>>) -> PyResult<Vec<DirEntry>> {
        let given = or_here(py, path);
        let path = PathArg::of(&given)?;
        let bytes = path.bytes();
        let found = self.released(py, |process| scan(process, bytes))?;
        let as_bytes = path.is_bytes();
        let found = path.check(found)?.into_iter();
        found
            .map(|found| DirEntry::new(py, bytes, found, as_bytes))
            .collect()
    }
}

/// The path, or the working directory.
fn or_here<'py>(py: Python<'py>, path: Option<Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    path.unwrap_or_else(|| pyo3::types::PyString::new(py, ".").into_any())
}

/// Every entry and its attributes; those of what a symbolic link leads to as well.
fn scan(process: &Process, path: &[u8]) -> Result<Vec<FoundEntry>, Errno> {
    let entries = process.read_dir(path)?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let fd = process.open(path, flags, 0)?;
    let mut found = Vec::with_capacity(entries.len());
    let mut failed = Ok(());
    for entry in entries {
        let own = match process.statat(fd, &entry.name, libc::AT_SYMLINK_NOFOLLOW) {
            Ok(own) => own,
            Err(Errno::ENOENT) => continue,
            Err(errno) => {
                failed = Err(errno);
                break;
            }
        };
        let target = match own.kind {
            Kind::Symlink => process.statat(fd, &entry.name, 0).ok(),
            _ => None,
        };
        let name = entry.name;
        found.push(FoundEntry { name, own, target });
    }
    let closed = process.close(fd);
    failed.and(closed).map(|()| found)
}
