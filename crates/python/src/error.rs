//! Errors as Python has them: `OSError` with errno, reason and path.

use crate::fork;
use hearth::{Errno, OpenError, QuotaError};
use hearth_fuse::MountError;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// The error of a call without a path.
pub fn of(errno: Errno) -> PyErr {
    PyOSError::new_err((errno.0, text(errno)))
}

/// The error of a call on `path`, as the caller gave it.
pub fn at(errno: Errno, path: &Bound<'_, PyAny>) -> PyErr {
    PyOSError::new_err((errno.0, text(errno), path.clone().unbind()))
}

/// The error of a call on two paths.
pub fn between(errno: Errno, from: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyErr {
    let (from, to) = (from.clone().unbind(), to.clone().unbind());
    PyOSError::new_err((errno.0, text(errno), from, None::<i32>, to))
}

/// The error of a batch, which is a result and not raised.
pub fn as_result(errno: Errno, path: &Bound<'_, PyAny>) -> Py<PyAny> {
    at(errno, path).into_value(path.py()).into_any()
}

/// An error with a reason of its own.
pub fn because(errno: Errno, reason: impl std::fmt::Display) -> PyErr {
    PyOSError::new_err((errno.0, reason.to_string()))
}

/// An error with a reason of its own, about `path`.
pub fn because_at(errno: Errno, reason: impl std::fmt::Display, path: &str) -> PyErr {
    PyOSError::new_err((errno.0, reason.to_string(), path.to_owned()))
}

/// The refusal of a volume that was closed.
pub fn closed() -> PyErr {
    because(Errno::EBADF, "the volume was closed")
}

/// The refusal of everything in a fork.
pub fn forked() -> PyErr {
    because(Errno::ESTALE, fork::REASON)
}

/// Why a volume was not opened.
pub fn of_open(error: &OpenError, source: &str) -> PyErr {
    let errno = match error {
        OpenError::Store(_, error) => error.errno(),
        OpenError::Host(_) => Errno::EOPNOTSUPP,
        // A source or an option that is not known, or a volume that cannot be built.
        _ => Errno::EINVAL,
    };
    because_at(errno, error, source)
}

/// Why a request about quotas is refused.
pub fn of_quota(error: &QuotaError) -> PyErr {
    because(error.errno(), error)
}

/// Why a mount was not made or not taken away. The text names the mount point as well.
pub fn of_mount(error: &MountError, place: &str) -> PyErr {
    let errno = match error {
        MountError::Missing { .. } => Errno::ENOENT,
        MountError::NotADirectory { .. } => Errno::ENOTDIR,
        MountError::NotEmpty { .. } => Errno::ENOTEMPTY,
        MountError::AlreadyMounted { .. } | MountError::Served { .. } => Errno::EBUSY,
        MountError::Dead { .. } => Errno(libc::ENOTCONN),
        MountError::NoPermission { .. }
        | MountError::Forbidden { .. }
        | MountError::DevicePermission => Errno::EPERM,
        MountError::NoDevice | MountError::OtherDevice => Errno::ENODEV,
        MountError::Limited { .. } => Errno::EAGAIN,
        MountError::NoUring { .. }
        | MountError::NoPassthrough { .. }
        | MountError::NoIdmap
        | MountError::TooOld { .. } => Errno::EOPNOTSUPP,
        MountError::Unmount { error, .. } | MountError::Io { error, .. } => {
            Errno(error.raw_os_error().unwrap_or(libc::EIO))
        }
        _ => Errno::EIO,
    };
    match place {
        "" => because(errno, error),
        place => because_at(errno, error, place),
    }
}

/// What `os.strerror` says, without asking it.
fn text(errno: Errno) -> String {
    hearth::io_reason(&errno.into())
}
