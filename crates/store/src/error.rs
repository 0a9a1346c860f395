//! What goes wrong in a store: one line each, with the remedy, and an errno at the edge.

use hearth_backend::Errno;
use std::fmt;
use std::path::PathBuf;

/// Result of an operation of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation of the store failed.
#[derive(Debug, Clone)]
pub enum Error {
    /// There is no room now. Nothing was changed, and the operation may be tried again.
    NoSpace {
        /// What needed room.
        what: &'static str,
    },
    /// Bytes are not what was written.
    Corrupt {
        /// File, relative to the volume's directory.
        file: PathBuf,
        /// Byte in it.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A call of the operating system failed.
    Io {
        /// The call, as a verb.
        op: &'static str,
        /// File.
        path: PathBuf,
        /// Its errno.
        errno: Errno,
    },
    /// A passphrase or key is missing, or does not open what it should.
    WrongKey {
        /// What is wrong.
        why: &'static str,
    },
}

impl Error {
    /// The errno for a caller of the filesystem.
    pub fn errno(&self) -> Errno {
        match self {
            Error::NoSpace { .. } => Errno::ENOSPC,
            Error::Corrupt { .. } => Errno::EIO,
            Error::Io { errno, .. } => *errno,
            Error::WrongKey { .. } => Errno::EACCES,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoSpace { what } => write!(f, "no room for {what}; remove files or add room"),
            Error::Corrupt { file, offset, what } => write!(
                f,
                "{}, byte {offset}: {what}; run hearth fsck",
                file.display()
            ),
            Error::Io { op, path, errno } => write!(f, "{op} {}: {errno}", path.display()),
            Error::WrongKey { why } => write!(f, "{why}; give the passphrase of the volume"),
        }
    }
}

impl std::error::Error for Error {}
