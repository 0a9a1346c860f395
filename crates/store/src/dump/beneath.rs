//! What a load has made, found again by its path.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::{Errno, Result};

/// Device and inode of a file that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeFile {
    device: u64,
    inode: u64,
}

impl MadeFile {
    /// That of an open file.
    pub fn of(file: impl AsFd) -> Result<MadeFile> {
        rustix::fs::fstat(file).map(|is| MadeFile::from(&is))
    }

    /// That of a name, which may be a link.
    pub fn named(at: BorrowedFd<'_>, name: &[u8]) -> Result<MadeFile> {
        let is = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
        is.map(|is| MadeFile::from(&is))
    }

    /// Opens this file for reading where it still has this path below `root`.
    ///
    /// # Errors
    /// `ESTALE`: another file is there.
    pub fn open(self, root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
        let (parent, name) = parent(root, path)?;
        // Before it is opened: to open a device may do something.
        self.same(MadeFile::named(parent.as_fd(), name)?)?;
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, name, how, Mode::empty())?;
        self.same(MadeFile::of(&file)?)?;
        Ok(file)
    }

    /// Gives this file, which has the path `first` below `root`, a second name.
    ///
    /// # Errors
    /// `ESTALE`: another file is there, which is left alone.
    pub fn link(
        self,
        root: BorrowedFd<'_>,
        first: &[u8],
        at: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<()> {
        let (parent, first) = parent(root, first)?;
        let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, first, how, Mode::empty())?;
        self.same(MadeFile::of(&file)?)?;
        // Not by its path, where another file may be by now. A name that was made cannot be taken
        // away again: it may be somebody else's then.
        match rustix::fs::linkat(&file, c"", at, name, AtFlags::EMPTY_PATH) {
            // Who lacks a capability for that, as on Linux before 6.10.
            Err(Errno::NOENT | Errno::PERM) => {
                let place = format!("/proc/self/fd/{}", file.as_raw_fd());
                rustix::fs::linkat(rustix::fs::CWD, place, at, name, AtFlags::SYMLINK_FOLLOW)
            }
            linked => linked,
        }
    }

    fn same(self, found: MadeFile) -> Result<()> {
        match found == self {
            true => Ok(()),
            false => Err(Errno::STALE),
        }
    }
}

impl From<&Stat> for MadeFile {
    fn from(is: &Stat) -> MadeFile {
        MadeFile {
            device: is.st_dev,
            inode: is.st_ino,
        }
    }
}

/// The kernel takes no longer path at once.
const PATH_PIECE: usize = 4000;

/// The directory that `path` has below `root`, and the name in it. No link leads anywhere else.
fn parent<'p>(root: BorrowedFd<'_>, path: &'p [u8]) -> Result<(OwnedFd, &'p [u8])> {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    let (mut rest, name) = slash.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let mut directory = rustix::io::fcntl_dupfd_cloexec(root, 0)?;
    while !rest.is_empty() {
        let piece = piece(rest);
        directory = rustix::fs::openat2(&directory, piece, how, Mode::empty(), inside)?;
        rest = rest.get(piece.len() + 1..).unwrap_or_default();
    }
    Ok((directory, name))
}

/// As much of a path as may be opened at once.
fn piece(path: &[u8]) -> &[u8] {
    let is_short = path.len() <= PATH_PIECE;
    let cut = || path[..PATH_PIECE].iter().rposition(|&byte| byte == b'/');
    match is_short {
        true => path,
        false => cut().map_or(path, |at| &path[..at]),
    }
}
