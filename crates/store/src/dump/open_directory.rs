//! A directory whose names come, while a stream is loaded into a plain directory.

use super::beneath::MadeFile;
use super::error::{DumpError, Dumped, of};
use hearth_backend::Inode;
use rustix::fd::{AsFd, OwnedFd};

/// Directories that are open at a time.
pub(super) const OPEN_MOST: usize = 64;

/// A directory whose names come.
pub(super) struct OpenDirectory {
    /// Closed where too many below it are open.
    pub directory: Option<OwnedFd>,
    pub made: MadeFile,
    pub path: Vec<u8>,
    pub inode: Inode,
}

impl OpenDirectory {
    /// The directory itself, which may have been closed.
    pub fn open(&mut self, root: &OwnedFd) -> Dumped<&OwnedFd> {
        let opened = match (self.directory.take(), &*self.path) {
            (Some(open), _) => Ok(open),
            (None, b"") => rustix::io::fcntl_dupfd_cloexec(root, 0),
            (None, path) => self.made.open(root.as_fd(), path),
        };
        let opened = opened.map_err(|error| found_again(error, &self.path, &self.path, "open"))?;
        Ok(self.directory.insert(opened))
    }
}

/// The error of looking for `made` again, at `op` of the member `path`.
pub(super) fn found_again(
    error: rustix::io::Errno,
    made: &[u8],
    path: &[u8],
    op: &'static str,
) -> DumpError {
    use rustix::io::Errno as E;
    match error {
        E::STALE | E::LOOP | E::NOENT | E::NOTDIR | E::XDEV => DumpError::Replaced {
            path: made.to_vec(),
        },
        error => DumpError::at(path, op)(of(error)),
    }
}
