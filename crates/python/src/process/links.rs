//! Names: making, moving and removing them.

use super::PyProcess;
use crate::path::{PathArg, decoded};
use hearth::{AT_FDCWD, Errno};
use pyo3::prelude::*;

#[pymethods]
impl PyProcess {
    /// Makes a directory.
    #[pyo3(signature = (path, mode = 0o777))]
    fn mkdir(&self, py: Python<'_>, path: &Bound<'_, PyAny>, mode: u16) -> PyResult<()> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        path.check(self.brief(py, |process| process.mkdir(bytes, mode))?)
    }

    /// Makes a directory and those above it that are missing.
    #[pyo3(signature = (path, mode = 0o777, exist_ok = false))]
    fn makedirs(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        mode: u16,
        exist_ok: bool,
    ) -> PyResult<()> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        let done = self.brief(py, |process| make_all(process, bytes, mode, exist_ok))?;
        path.check(done)
    }

    /// Removes an empty directory.
    fn rmdir(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        path.check(self.brief(py, |process| process.rmdir(bytes))?)
    }

    /// Removes the name of a file.
    fn unlink(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        path.check(self.brief(py, |process| process.unlink(bytes))?)
    }

    /// Removes the name of a file.
    fn remove(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        self.unlink(py, path)
    }

    /// Moves src to dst, which is replaced. Moving directories between directories may wait for
    /// one another.
    fn rename(
        &self,
        py: Python<'_>,
        src: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.rename_with(py, src, dst, 0)
    }

    /// Moves src to dst, which is replaced.
    fn replace(
        &self,
        py: Python<'_>,
        src: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.rename_with(py, src, dst, 0)
    }

    /// Swaps two names in one step.
    fn exchange(
        &self,
        py: Python<'_>,
        src: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.rename_with(py, src, dst, libc::RENAME_EXCHANGE)
    }

    /// Gives a file another name.
    fn link(&self, py: Python<'_>, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>) -> PyResult<()> {
        let (src, dst) = (PathArg::of(src)?, PathArg::of(dst)?);
        let (from, to) = (src.bytes(), dst.bytes());
        let done = self.brief(py, |process| process.link(from, to))?;
        src.check_to(done, &dst)
    }

    /// Makes a symbolic link at dst that leads to src.
    fn symlink(
        &self,
        py: Python<'_>,
        src: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (src, dst) = (PathArg::of(src)?, PathArg::of(dst)?);
        let (target, path) = (src.bytes(), dst.bytes());
        let done = self.brief(py, |process| process.symlink(target, path))?;
        src.check_to(done, &dst)
    }

    /// Where a symbolic link leads, as it was made.
    fn readlink<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = PathArg::of(path)?;
        let bytes = path.bytes();
        let target = path.check(self.brief(py, |process| process.readlink(bytes))?)?;
        decoded(py, &target, path.is_bytes())
    }
}

impl PyProcess {
    fn rename_with(
        &self,
        py: Python<'_>,
        src: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyAny>,
        flags: u32,
    ) -> PyResult<()> {
        let (src, dst) = (PathArg::of(src)?, PathArg::of(dst)?);
        let (from, to) = (src.bytes(), dst.bytes());
        let done = self.released(py, |process| {
            process.renameat2(AT_FDCWD, from, AT_FDCWD, to, flags)
        })?;
        src.check_to(done, &dst)
    }
}

/// `os.makedirs`.
fn make_all(
    process: &hearth::Process,
    path: &[u8],
    mode: u16,
    exist_ok: bool,
) -> Result<(), Errno> {
    match process.mkdir(path, mode) {
        Err(Errno::ENOENT) => {
            let name = path.iter().rposition(|&byte| byte != b'/').unwrap_or(0);
            let slash = path[..name].iter().rposition(|&byte| byte == b'/');
            let parent = slash.map_or(&[][..], |slash| &path[..slash]);
            if parent.is_empty() {
                return Err(Errno::ENOENT);
            }
            make_all(process, parent, 0o777, true)?;
            match process.mkdir(path, mode) {
                Err(Errno::EEXIST) if exist_ok => Ok(()),
                done => done,
            }
        }
        Err(Errno::EEXIST) if exist_ok => match process.stat(path)?.kind {
            hearth::Kind::Directory => Ok(()),
            _ => Err(Errno::EEXIST),
        },
        done => done,
    }
}
