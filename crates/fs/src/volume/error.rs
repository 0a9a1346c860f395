//! Why a volume cannot be built.

use crate::data::PAGE;
use crate::errno::Errno;
use hearth_sched::SchedError;
use std::fmt;

/// Why a volume cannot be built. Nothing is left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// A size below one page.
    Size {
        /// Bytes, as asked for.
        asked: u64,
    },
    /// Room for no inode at all, not even that of the root.
    NoInode,
    /// More workers or seats than 1,024, or the system refuses a thread.
    Scheduler(SchedError),
    /// What the backend answered when it was asked for the root.
    Backend(Errno),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Size { asked } => {
                write!(f, "size of {asked} bytes: give at least a page of {PAGE}")
            }
            BuildError::NoInode => f.write_str("0 inodes: give at least 1, for the root"),
            BuildError::Scheduler(error) => write!(f, "{error}"),
            BuildError::Backend(errno) => write!(f, "the backend gives no root: {errno}"),
        }
    }
}

impl std::error::Error for BuildError {}

/// `EINVAL` for settings, `EAGAIN` for a thread that the system refuses, else what the backend
/// said.
impl From<BuildError> for Errno {
    fn from(error: BuildError) -> Errno {
        match error {
            BuildError::Scheduler(SchedError::Thread { .. }) => Errno::EAGAIN,
            BuildError::Size { .. } | BuildError::NoInode | BuildError::Scheduler(_) => {
                Errno::EINVAL
            }
            BuildError::Backend(errno) => errno,
        }
    }
}
