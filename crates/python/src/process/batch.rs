//! Many files in one call, with one release of the interpreter's lock.

use super::PyProcess;
use super::whole::{read_whole, write_whole};
use crate::bytes;
use crate::path::PathArg;
use crate::stat::Stat;
use hearth::{AT_FDCWD, Errno};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// About what a call on a name takes without the interpreter's part.
const NAME_NS: usize = 60;

/// About what a call on a whole small file takes.
const FILE_NS: usize = 600;

/// About how many bytes move in a nanosecond.
const BYTES_IN_NS: usize = 8;

#[pymethods]
impl PyProcess {
    /// Attributes of many files: a list with a Stat, or the OSError, for each path.
    #[pyo3(signature = (paths, *, follow_symlinks = true))]
    fn stat_many<'py>(
        &self,
        py: Python<'py>,
        paths: &Bound<'py, PyAny>,
        follow_symlinks: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let flags = if follow_symlinks {
            0
        } else {
            libc::AT_SYMLINK_NOFOLLOW
        };
        let stat = |process: &hearth::Process, path: &[u8]| process.statat(AT_FDCWD, path, flags);
        self.each(py, paths, NAME_NS, stat, |attr| {
            Ok(Bound::new(py, Stat::new(attr))?.into_any().unbind())
        })
    }

    /// Contents of many files: a list with bytes, or the OSError, for each path.
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        paths: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.each(py, paths, FILE_NS, read_whole, |all| {
            Ok(bytes::object(py, &all)?.into_any().unbind())
        })
    }

    /// Removes many files: a list with None, or the OSError, for each path.
    fn unlink_many<'py>(
        &self,
        py: Python<'py>,
        paths: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let unlink = |process: &hearth::Process, path: &[u8]| process.unlink(path);
        self.each(py, paths, NAME_NS, unlink, |()| Ok(py.None()))
    }

    /// Makes or empties many files and writes them: pairs of a path and its data. Returns a list
    /// with the number of bytes, or the OSError, for each.
    #[pyo3(signature = (files, mode = 0o666))]
    fn write_many<'py>(
        &self,
        py: Python<'py>,
        files: &Bound<'py, PyAny>,
        mode: u16,
    ) -> PyResult<Bound<'py, PyList>> {
        let pairs: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)> = files
            .try_iter()?
            .map(|pair| pair?.extract())
            .collect::<PyResult<_>>()?;
        let paths = pairs.iter().map(|(path, _)| PathArg::of(path));
        let paths: Vec<PathArg<'_, '_>> = paths.collect::<PyResult<_>>()?;
        let data = pairs.iter().map(|(_, data)| bytes::given(data));
        let data = data.collect::<PyResult<Vec<_>>>()?;
        let work: Vec<(&[u8], &[u8])> = paths
            .iter()
            .zip(&data)
            .map(|(path, data)| (path.bytes(), &**data))
            .collect();
        let moved: usize = data.iter().map(|data| data.len()).sum();
        let ns = work.len() * FILE_NS + moved / BYTES_IN_NS;
        let done = self.batched(py, ns, |process| -> Vec<Result<usize, Errno>> {
            let write = |(path, data)| write_whole(process, path, data, mode);
            work.into_iter().map(write).collect()
        })?;
        results(py, &paths, done, |count| {
            Ok(count.into_pyobject(py)?.into_any().unbind())
        })
    }
}

impl PyProcess {
    /// Runs `work`, of about `each_ns`, for each path under at most one release, and makes objects
    /// of the results.
    fn each<'py, T: Send>(
        &self,
        py: Python<'py>,
        paths: &Bound<'py, PyAny>,
        each_ns: usize,
        work: impl Fn(&hearth::Process, &[u8]) -> Result<T, Errno> + Sync,
        object: impl FnMut(T) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let given = collected(paths)?;
        let paths = given.iter().map(PathArg::of);
        let paths: Vec<PathArg<'_, '_>> = paths.collect::<PyResult<_>>()?;
        let bytes: Vec<&[u8]> = paths.iter().map(PathArg::bytes).collect();
        let ns = bytes.len() * each_ns;
        let done = self.batched(py, ns, |process| -> Vec<Result<T, Errno>> {
            bytes.into_iter().map(|path| work(process, path)).collect()
        })?;
        results(py, &paths, done, object)
    }
}

/// The objects of an iterable. They are kept while the lock is released, whatever becomes of it.
fn collected<'py>(items: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match items.cast::<PyList>() {
        Ok(list) => Ok(list.iter().collect()),
        Err(_) => items.try_iter()?.collect(),
    }
}

/// The results of a batch; errors are results as well, also where there is no memory for one of
/// them.
fn results<'py, T>(
    py: Python<'py>,
    paths: &[PathArg<'_, 'py>],
    done: Vec<Result<T, Errno>>,
    mut object: impl FnMut(T) -> PyResult<Py<PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let objects = paths.iter().zip(done).map(|(path, done)| match done {
        Ok(value) => match object(value) {
            Err(error) if error.is_instance_of::<PyMemoryError>(py) => {
                Ok(path.error(Errno::ENOMEM))
            }
            done => done,
        },
        Err(errno) => Ok(path.error(errno)),
    });
    PyList::new(py, objects.collect::<PyResult<Vec<_>>>()?)
}
