//! Paths: `str`, `bytes` and `os.PathLike` in, `str` or `bytes` out.

use crate::error;
use hearth::Errno;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::borrow::Cow;

/// The bytes of a path, and the object that it was given as.
pub struct PathArg<'a, 'py> {
    given: &'a Bound<'py, PyAny>,
    bytes: Cow<'a, [u8]>,
}

impl<'a, 'py> PathArg<'a, 'py> {
    /// The path that `given` stands for.
    pub fn of(given: &'a Bound<'py, PyAny>) -> PyResult<PathArg<'a, 'py>> {
        let bytes = match given.cast::<PyString>() {
            Ok(text) => match text.to_str() {
                Ok(text) => Cow::Borrowed(text.as_bytes()),
                Err(_) => encoded(given)?,
            },
            Err(_) => match given.cast::<PyBytes>() {
                Ok(bytes) => Cow::Borrowed(bytes.as_bytes()),
                Err(_) => encoded(given)?,
            },
        };
        if bytes.contains(&0) {
            return Err(PyValueError::new_err("embedded null byte"));
        }
        Ok(PathArg { given, bytes })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value, or the error with this path.
    pub fn check<T>(&self, result: Result<T, Errno>) -> PyResult<T> {
        result.map_err(|errno| error::at(errno, self.given))
    }

    /// The value, or the error with this path and `to`.
    pub fn check_to<T>(&self, result: Result<T, Errno>, to: &PathArg<'_, 'py>) -> PyResult<T> {
        result.map_err(|errno| error::between(errno, self.given, to.given))
    }

    /// The error as a result of a batch.
    pub fn error(&self, errno: Errno) -> Py<PyAny> {
        error::as_result(errno, self.given)
    }

    /// Whether names that belong to this path are given back as `bytes`.
    pub fn is_bytes(&self) -> bool {
        self.given.is_instance_of::<PyBytes>()
    }
}

/// A name or path as `os` gives it back.
pub fn decoded<'py>(py: Python<'py>, path: &[u8], as_bytes: bool) -> PyResult<Bound<'py, PyAny>> {
    if as_bytes {
        return Ok(PyBytes::new(py, path).into_any());
    }
    match std::str::from_utf8(path) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => py
            .import("os")?
            .getattr("fsdecode")?
            .call1((PyBytes::new(py, path),)),
    }
}

/// What `os.fsencode` makes of it.
fn encoded(given: &Bound<'_, PyAny>) -> PyResult<Cow<'static, [u8]>> {
    let bytes = given
        .py()
        .import("os")?
        .getattr("fsencode")?
        .call1((given,))?;
    let bytes = bytes.cast_into::<PyBytes>()?;
    Ok(Cow::Owned(bytes.as_bytes().to_vec()))
}
