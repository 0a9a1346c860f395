//! Attributes and extended attributes.

use super::PyProcess;
use crate::amounts;
use crate::path::{PathArg, decoded};
use crate::stat::{Stat, StatVfs};
use hearth::{AT_FDCWD, Errno, SetTime, Time};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

#[pymethods]
impl PyProcess {
    /// Attributes of the file at path.
    #[pyo3(signature = (path, *, follow_symlinks = true))]
    fn stat(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        follow_symlinks: bool,
    ) -> PyResult<Stat> {
        let path = PathArg::of(path)?;
        let (bytes, flags) = (path.bytes(), at_flags(follow_symlinks));
        let attr = self.brief(py, |process| process.statat(AT_FDCWD, bytes, flags))?;
        path.check(attr).map(Stat::new)
    }

    /// Attributes of the file at path; of a symbolic link, its own.
    fn lstat(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Stat> {
        self.stat(py, path, false)
    }

    /// Whether something is at path that stat() finds.
    fn exists(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<bool> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        match self.brief(py, |process| process.stat(bytes))? {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(false),
            Err(errno) => path.check(Err(errno)),
        }
    }

    /// Whether this Process may use path so: os.R_OK, W_OK, X_OK or F_OK.
    fn access(&self, py: Python<'_>, path: &Bound<'_, PyAny>, mode: u32) -> PyResult<bool> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        Ok(self
            .brief(py, |process| process.access(bytes, mode))?
            .is_ok())
    }

    /// Room of the volume, or of the project that the directory at path belongs to.
    fn statvfs(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<StatVfs> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        let stat = self.brief(py, |process| process.statfs(bytes))?;
        path.check(stat).map(StatVfs::from)
    }

    /// Changes permission bits.
    fn chmod(&self, py: Python<'_>, path: &Bound<'_, PyAny>, mode: u16) -> PyResult<()> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        path.check(self.brief(py, |process| process.chmod(bytes, mode))?)
    }

    /// Changes owner and group; -1 keeps one.
    #[pyo3(signature = (path, uid, gid, *, follow_symlinks = true))]
    fn chown(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        uid: i64,
        gid: i64,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let path = PathArg::of(path)?;
        let (bytes, flags) = (path.bytes(), at_flags(follow_symlinks));
        let (uid, gid) = (path.check(owner(uid))?, path.check(owner(gid))?);
        path.check(self.brief(py, |process| {
            process.fchownat(AT_FDCWD, bytes, uid, gid, flags)
        })?)
    }

    /// Sets the times of last access and of last change of contents: to now, to a pair of seconds,
    /// or to a pair of nanoseconds.
    #[pyo3(signature = (path, times = None, *, ns = None, follow_symlinks = true))]
    fn utime(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        times: Option<(f64, f64)>,
        ns: Option<(i128, i128)>,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let path = PathArg::of(path)?;
        let (bytes, flags) = (path.bytes(), at_flags(follow_symlinks));
        let (atime, mtime) = match (times, ns) {
            (None, None) => (SetTime::Now, SetTime::Now),
            (Some((atime, mtime)), None) => (time(whole(atime)?)?, time(whole(mtime)?)?),
            (None, Some((atime, mtime))) => (time(atime)?, time(mtime)?),
            (Some(_), Some(_)) => {
                let why = "utime: you may specify either 'times' or 'ns' but not both";
                return Err(PyValueError::new_err(why));
            }
        };
        path.check(self.brief(py, |process| {
            process.utimensat(AT_FDCWD, bytes, Some(atime), Some(mtime), flags)
        })?)
    }

    /// Cuts or extends the file at path.
    fn truncate(&self, py: Python<'_>, path: &Bound<'_, PyAny>, length: i64) -> PyResult<()> {
        let path = PathArg::of(path)?;
        let (bytes, length) = (path.bytes(), path.check(amounts::offset(length))?);
        path.check(self.released(py, |process| process.truncate(bytes, length))?)
    }

    /// The value of an extended attribute.
    fn getxattr<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyAny>,
        attribute: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (path, name) = (PathArg::of(path)?, PathArg::of(attribute)?);
        let (bytes, name) = (path.bytes(), name.bytes());
        let value = self.brief(py, |process| process.getxattr(bytes, name))?;
        Ok(PyBytes::new(py, &path.check(value)?))
    }

    /// Sets an extended attribute; flags may be os.XATTR_CREATE or os.XATTR_REPLACE.
    #[pyo3(signature = (path, attribute, value, flags = 0))]
    fn setxattr(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        attribute: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        flags: i32,
    ) -> PyResult<()> {
        let (path, name) = (PathArg::of(path)?, PathArg::of(attribute)?);
        let value = crate::bytes::given(value)?;
        let (bytes, name, value) = (path.bytes(), name.bytes(), &*value);
        path.check(self.brief(py, |process| process.setxattr(bytes, name, value, flags))?)
    }

    /// Removes an extended attribute.
    fn removexattr(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        attribute: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (path, name) = (PathArg::of(path)?, PathArg::of(attribute)?);
        let (bytes, name) = (path.bytes(), name.bytes());
        path.check(self.brief(py, |process| process.removexattr(bytes, name))?)
    }

    /// The names of the extended attributes.
    fn listxattr<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        let names = path.check(self.brief(py, |process| process.listxattr(bytes))?)?;
        let names = names.split(|&byte| byte == 0);
        let names = names.filter(|name| !name.is_empty());
        names.map(|name| decoded(py, name, false)).collect()
    }
}

fn at_flags(follow_symlinks: bool) -> i32 {
    if follow_symlinks {
        0
    } else {
        libc::AT_SYMLINK_NOFOLLOW
    }
}

/// An owner or group as `os.chown` takes it.
fn owner(id: i64) -> Result<Option<u32>, Errno> {
    match id {
        -1 => Ok(None),
        id => u32::try_from(id).map(Some).map_err(|_| Errno::EINVAL),
    }
}

/// Nanoseconds of seconds. What is no number is no time, and must not become one.
fn whole(seconds: f64) -> PyResult<i128> {
    match seconds.is_nan() {
        true => Err(PyValueError::new_err("Invalid value NaN (not a number)")),
        // Infinity becomes the greatest number there is, which is no time either.
        false => Ok((seconds * 1e9).round() as i128),
    }
}

fn time(nanoseconds: i128) -> PyResult<SetTime> {
    let second = 1_000_000_000;
    let far = |_| PyOverflowError::new_err("timestamp out of range for platform time_t");
    Ok(SetTime::At(Time {
        sec: i64::try_from(nanoseconds.div_euclid(second)).map_err(far)?,
        nsec: nanoseconds.rem_euclid(second) as u32,
    }))
}
