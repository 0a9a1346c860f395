//! Contents of files: what callers write, and the memory that they read into.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};
use std::borrow::Cow;

/// From this many bytes on there may be no memory for a copy while there is for all else.
const LARGE: usize = 1 << 20;

/// `bytes` with this contents. `MemoryError` where a large one has no room: `PyBytes::new` would
/// panic, and what does not panic is slower.
pub fn object<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    if data.len() < LARGE {
        return Ok(PyBytes::new(py, data));
    }
    PyBytes::new_with(py, data.len(), |out| {
        out.copy_from_slice(data);
        Ok(())
    })
}

/// `len` zeros, or `MemoryError`.
pub fn zeroed(len: usize) -> PyResult<Vec<u8>> {
    if len < LARGE {
        return Ok(vec![0; len]);
    }
    let mut zeros = Vec::new();
    let reserved = zeros.try_reserve_exact(len);
    reserved.map_err(|_| PyMemoryError::new_err(()))?;
    zeros.resize(len, 0);
    Ok(zeros)
}

/// The bytes of an object that has some: borrowed from `bytes`, which nobody can change, copied
/// from all else.
pub fn given<'a>(data: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    // Any contiguous array: `PyBuffer` by itself takes one of bytes alone.
    let flat = PyMemoryView::from(data)?.call_method1("cast", ("B",))?;
    let mut copy = zeroed(flat.len()?)?;
    PyBuffer::<u8>::get(&flat)?.copy_to_slice(data.py(), &mut copy)?;
    Ok(Cow::Owned(copy))
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
