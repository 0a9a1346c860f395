//! Contents of files: what callers write, and the memory that they read into.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};
use std::borrow::Cow;

/// The bytes of an object that has some: borrowed from `bytes`, which nobody can change, copied
/// from all else.
pub fn given<'a>(data: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    // Any contiguous array: `PyBuffer` by itself takes one of bytes alone.
    let flat = PyMemoryView::from(data)?.call_method1("cast", ("B",))?;
    Ok(Cow::Owned(PyBuffer::<u8>::get(&flat)?.to_vec(data.py())?))
}

/// The memory of a caller, as bytes.
pub struct Target<'py> {
    flat: Bound<'py, PyAny>,
    len: usize,
}

impl<'py> Target<'py> {
    /// The memory of `buffer`, which has to be writable and contiguous.
    pub fn of(buffer: &Bound<'py, PyAny>) -> PyResult<Target<'py>> {
        let flat = PyMemoryView::from(buffer)?.call_method1("cast", ("B",))?;
        let len = flat.len()?;
        Ok(Target { flat, len })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies `data`, which is no longer than the target, to its beginning.
    pub fn fill(&self, data: &[u8]) -> PyResult<()> {
        if data.is_empty() {
            return Ok(());
        }
        let py = self.flat.py();
        let part = match data.len() == self.len {
            true => self.flat.clone(),
            false => self
                .flat
                .get_item(PySlice::new(py, 0, data.len() as isize, 1))?,
        };
        PyBuffer::<u8>::get(&part)?.copy_from_slice(py, data)
    }
}
