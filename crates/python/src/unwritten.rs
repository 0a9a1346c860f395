//! What file objects hold that is not written yet: calls of `hearth_fs/_unwritten.py`.

use pyo3::prelude::*;

/// Has the file objects of a `Volume` write what they hold. The error of those that could not.
pub fn write_of(volume: &Bound<'_, PyAny>) -> PyResult<Option<PyErr>> {
    let module = volume.py().import("hearth_fs._unwritten")?;
    let failed = module.call_method1("write_of", (volume,))?;
    Ok((!failed.is_none()).then(|| PyErr::from_value(failed)))
}

/// Has all file objects write what they hold, and reports those that could not: for the end of the
/// interpreter.
pub fn write_all(py: Python<'_>) -> PyResult<()> {
    let module = py.import("hearth_fs._unwritten")?;
    for failed in module.call_method0("write_all")?.try_iter()? {
        let (file, error): (Bound<'_, PyAny>, Bound<'_, PyAny>) = failed?.extract()?;
        PyErr::from_value(error).write_unraisable(py, Some(&file));
    }
    Ok(())
}
