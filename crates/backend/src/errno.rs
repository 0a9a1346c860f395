//! Error numbers: what a failed operation returns.

use std::fmt;

/// Result of an operation of the filesystem.
pub type Result<T> = std::result::Result<T, Errno>;

/// A Linux error number (`errno(3)`), the one error type at the edge of the library.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// What the system says of an error, without its number: `Permission denied` instead of
/// `Permission denied (os error 13)`.
pub fn io_reason(error: &std::io::Error) -> String {
    let mut text = error.to_string();
    if let Some(end) = text.find(" (os error") {
        text.truncate(end);
    }
    text
}

macro_rules! errnos {
    ($($name:ident $text:literal),* $(,)?) => {
        #[allow(missing_docs)]
        impl Errno {
            $(pub const $name: Errno = Errno(libc::$name);)*

            /// The symbolic name, `"ENOENT"` for 2; `"E?"` for a number that the library never
            /// returns.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $(libc::$name => stringify!($name),)*
                    _ => "E?",
                }
            }

            fn text(self) -> &'static str {
                match self.0 {
                    $(libc::$name => $text,)*
                    _ => "unknown error",
                }
            }
        }
    };
}

errnos! {
    EPERM "operation not permitted",
    ENOENT "no such file or directory",
    EINTR "interrupted",
    EIO "input/output error",
    ENXIO "no such device or address",
    EBADF "bad file descriptor",
    EAGAIN "resource temporarily unavailable",
    ENOMEM "cannot allocate memory",
    EACCES "permission denied",
    EBUSY "device or resource busy",
    EEXIST "file exists",
    EXDEV "invalid cross-device link",
    ENODEV "no such device",
    ENOTDIR "not a directory",
    EISDIR "is a directory",
    EINVAL "invalid argument",
    ENFILE "too many open files in system",
    EMFILE "too many open files",
    ENOTTY "inappropriate ioctl for device",
    ETXTBSY "text file busy",
    EFBIG "file too large",
    ENOSPC "no space left on device",
    ESPIPE "illegal seek",
    EROFS "read-only file system",
    EMLINK "too many links",
    EPIPE "broken pipe",
    ERANGE "numerical result out of range",
    EDEADLK "resource deadlock avoided",
    ENAMETOOLONG "file name too long",
    ENOLCK "no locks available",
    ENOSYS "function not implemented",
    ENOTEMPTY "directory not empty",
    ELOOP "too many levels of symbolic links",
    ENODATA "no data available",
    EOVERFLOW "value too large for defined data type",
    EOPNOTSUPP "operation not supported",
    ENOTCONN "transport endpoint is not connected",
    ETIMEDOUT "connection timed out",
    ESTALE "stale file handle",
    EREMOTEIO "remote input/output error",
    EDQUOT "disk quota exceeded",
    ENOBUFS "no buffer space available",
    ECANCELED "operation canceled",
    E2BIG "argument list too long",
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "E?" => write!(f, "error {}", self.0),
            name => write!(f, "{name}: {}", self.text()),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "E?" => write!(f, "Errno({})", self.0),
            name => f.write_str(name),
        }
    }
}

impl std::error::Error for Errno {}

impl From<std::io::Error> for Errno {
    /// The operating system's number where there is one, else `EIO`.
    fn from(error: std::io::Error) -> Errno {
        error.raw_os_error().map_or(Errno::EIO, Errno)
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> std::io::Error {
        std::io::Error::from_raw_os_error(errno.0)
    }
}
