//! Why a directory cannot be served.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a directory cannot be served.
#[derive(Debug)]
pub enum OpenError {
    /// There is no such directory.
    Missing {
        /// The source.
        path: PathBuf,
    },
    /// It is something else.
    NotADirectory {
        /// The source.
        path: PathBuf,
    },
    /// This user may not read it.
    NoPermission {
        /// The source.
        path: PathBuf,
    },
    /// A root that cannot act for other users.
    NoIdentity {
        /// The source.
        path: PathBuf,
    },
    /// Ids may be mapped, and the daemon is not one of root.
    NotRoot {
        /// The source.
        path: PathBuf,
    },
    /// Neither a state directory nor a home directory is named.
    NoState,
    /// The state directory lies in the source.
    StateInside {
        /// The state directory.
        path: PathBuf,
    },
    /// Another daemon uses the state directory.
    StateInUse {
        /// The state directory.
        path: PathBuf,
        /// The daemon's process, where it is seen.
        by: Option<u32>,
    },
    /// The state directory cannot be written to.
    State {
        /// The state directory.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A line of a file that keeps limits or projects cannot be understood.
    DamagedLine {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        number: usize,
        /// What takes its place.
        remedy: &'static str,
    },
    /// Changes behind the mount cannot be watched.
    NoWatch {
        /// The source.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Something else went wrong.
    Io {
        /// What was used.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl OpenError {
    /// What a failed open of `path` means.
    pub(crate) fn of(path: PathBuf, error: io::Error) -> OpenError {
        match error.raw_os_error() {
            Some(libc::ENOENT) => OpenError::Missing { path },
            Some(libc::ENOTDIR) => OpenError::NotADirectory { path },
            Some(libc::EACCES | libc::EPERM) => OpenError::NoPermission { path },
            _ => OpenError::Io { path, error },
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Missing { path } => {
                let path = path.display();
                write!(
                    f,
                    "source {path} does not exist: give a directory that is there"
                )
            }
            OpenError::NotADirectory { path } => {
                write!(f, "source {} is not a directory: give one", path.display())
            }
            OpenError::NoPermission { path } => write!(
                f,
                "no permission to read source {}: give a directory of your own, or run as the \
                 user who may",
                path.display()
            ),
            OpenError::NoIdentity { path } => write!(
                f,
                "source {}: root needs CAP_SETUID and CAP_SETGID here, to act for whoever asks: \
                 give them, or run as the owner of the files",
                path.display()
            ),
            OpenError::NotRoot { path } => write!(
                f,
                "source {}: 'idmap' needs a daemon of root, since the kernel does not say then \
                 who asks: mount as root, or leave 'idmap' out",
                path.display()
            ),
            OpenError::NoWatch { path, error } => write!(
                f,
                "{}: its filesystem cannot be watched ({error}): 'watch' needs CAP_SYS_ADMIN of \
                 the machine and a filesystem with file handles; without it changes of others are \
                 seen within a second",
                path.display()
            ),
            OpenError::StateInUse { path, by } => {
                let by =
                    by.map_or_else(|| "another mount".to_owned(), |by| format!("process {by}"));
                write!(
                    f,
                    "state directory {} is in use by {by}, which serves this directory: unmount \
                     it there, or end what still uses what is unmounted; '-o state=DIR' is \
                     another state, without the limits and projects of this one",
                    path.display()
                )
            }
            OpenError::NoState => write!(
                f,
                "there is no home directory to keep heat in: name one with '-o state=DIR'"
            ),
            OpenError::StateInside { path } => write!(
                f,
                "state directory {} lies in the served directory, which stays as it is: name \
                 another one with '-o state=DIR'",
                path.display()
            ),
            OpenError::State { path, error } => write!(
                f,
                "state directory {}: {error}: name one that can be written to with '-o state=DIR'",
                path.display()
            ),
            OpenError::DamagedLine {
                path,
                number,
                remedy,
            } => write!(
                f,
                "{}:{number}: this line is damaged, or of a newer version: what it says would not \
                 hold; put it right, or take it out, mount, and {remedy}",
                path.display()
            ),
            OpenError::Io { path, error } => {
                let path = path.display();
                write!(
                    f,
                    "source {path}: {error}: see that it can be listed, and mount again"
                )
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io { error, .. } | OpenError::State { error, .. } => Some(error),
            _ => None,
        }
    }
}
