//! Entries of a directory with their attributes.

use crate::path::decoded;
use crate::stat::Stat;
use hearth::{Attr, Kind};
use pyo3::prelude::*;

/// An entry of a directory, as os.scandir() gives it, with the attributes that it had then.
#[pyclass(frozen, module = "hearth_fs")]
pub struct DirEntry {
    name: Py<PyAny>,
    path: Py<PyAny>,
    /// Of the entry itself.
    own: Attr,
    /// Of what a symbolic link leads to, if it leads anywhere.
    target: Option<Attr>,
}

impl DirEntry {
    /// The entry `name` of the directory `parent`.
    pub fn new(
        py: Python<'_>,
        parent: &[u8],
        found: FoundEntry,
        as_bytes: bool,
    ) -> PyResult<DirEntry> {
        let mut path = parent.to_vec();
        if !path.is_empty() && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(&found.name);
        Ok(DirEntry {
            name: decoded(py, &found.name, as_bytes)?.unbind(),
            path: decoded(py, &path, as_bytes)?.unbind(),
            own: found.own,
            target: found.target,
        })
    }

    fn seen(&self, follow_symlinks: bool) -> Option<&Attr> {
        match self.own.kind {
            Kind::Symlink if follow_symlinks => self.target.as_ref(),
            _ => Some(&self.own),
        }
    }

    fn is(&self, kind: Kind, follow_symlinks: bool) -> bool {
        let seen = self.seen(follow_symlinks);
        seen.is_some_and(|attr| attr.kind == kind)
    }
}

/// An entry as it was found, without an object of Python.
pub struct FoundEntry {
    pub name: Vec<u8>,
    pub own: Attr,
    pub target: Option<Attr>,
}

#[pymethods]
impl DirEntry {
    /// Its name in the directory.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyAny> {
        self.name.clone_ref(py)
    }

    /// The path of the directory, as it was given, and the name.
    #[getter]
    fn path(&self, py: Python<'_>) -> Py<PyAny> {
        self.path.clone_ref(py)
    }

    /// Inode number.
    fn inode(&self) -> u64 {
        self.own.shown_ino
    }

    /// Whether it is a directory, or a symbolic link to one.
    #[pyo3(signature = (*, follow_symlinks = true))]
    fn is_dir(&self, follow_symlinks: bool) -> bool {
        self.is(Kind::Directory, follow_symlinks)
    }

    /// Whether it is a regular file, or a symbolic link to one.
    #[pyo3(signature = (*, follow_symlinks = true))]
    fn is_file(&self, follow_symlinks: bool) -> bool {
        self.is(Kind::File, follow_symlinks)
    }

    /// Whether it is a symbolic link.
    fn is_symlink(&self) -> bool {
        self.own.kind == Kind::Symlink
    }

    /// Its attributes at the time of scandir().
    ///
    /// Raises FileNotFoundError for a symbolic link that led nowhere.
    #[pyo3(signature = (*, follow_symlinks = true))]
    fn stat(&self, py: Python<'_>, follow_symlinks: bool) -> PyResult<Stat> {
        let seen = self.seen(follow_symlinks).cloned();
        let path = self.path.bind(py);
        let seen = seen.ok_or_else(|| crate::error::at(hearth::Errno::ENOENT, path));
        seen.map(Stat::new)
    }

    fn __fspath__(&self, py: Python<'_>) -> Py<PyAny> {
        self.path(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<DirEntry {}>", self.name.bind(py).repr()?))
    }
}
