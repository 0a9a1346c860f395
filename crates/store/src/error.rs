//! What goes wrong in a store: one line each, with the remedy, and an errno at the edge.

use hearth_backend::Errno;
use std::fmt;
use std::path::{Path, PathBuf};

/// Result of an operation of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation of the store failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// There is no room now. Nothing was changed, and the operation may be tried again.
    NoSpace {
        /// What needed room.
        what: &'static str,
    },
    /// A disk has no room for a new volume. Nothing is left of it.
    NoRoomToMake {
        /// The volume's directory.
        path: PathBuf,
        /// Bytes that a volume takes before anything is written to it.
        needs: u64,
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
    /// The engine behind the log does not open, whatever for.
    Engine {
        /// Its files that are not what was written, relative to the volume's directory.
        files: Vec<String>,
        /// What is wrong.
        what: String,
    },
    /// Acknowledged epochs are missing.
    Gap {
        /// The first epoch that is missing.
        first: u64,
        /// The newest epoch that is known to have been acknowledged.
        newest: u64,
        /// Where the newer epoch was seen, relative to the volume's directory.
        file: PathBuf,
    },
    /// Somebody has the volume open.
    InUse {
        /// The volume's directory.
        path: PathBuf,
        /// Who: process, host and mount point.
        who: String,
    },
    /// A file that is written over in place has another name, so another copy has it too.
    Linked {
        /// The file.
        path: PathBuf,
    },
    /// There is no volume here.
    NotAVolume {
        /// What was given.
        path: PathBuf,
        /// What it is instead.
        why: &'static str,
    },
    /// A volume was begun and not finished here.
    Unfinished {
        /// The volume's directory.
        path: PathBuf,
    },
    /// A volume holds a part of a dump, since its loading goes on or was cut off.
    Loading {
        /// The volume's directory.
        path: PathBuf,
    },
    /// A volume cannot be made here, because something is here already.
    NotEmpty {
        /// What was given.
        path: PathBuf,
        /// What is there.
        what: String,
    },
    /// The volume has a format of a later version.
    Newer {
        /// The volume's directory.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The volume uses features that this program does not know.
    UnknownFeature {
        /// The volume's directory.
        path: PathBuf,
        /// Names of the features.
        names: String,
        /// Whether a read-only opening goes without them.
        read_only_works: bool,
    },
    /// The volume takes no changes.
    ReadOnly {
        /// Why not.
        why: String,
    },
    /// A key, a value or a whole epoch is larger than the log takes.
    TooLarge {
        /// What it is.
        what: &'static str,
        /// The largest that is taken, in bytes.
        most: u64,
    },
    /// An epoch is not newer than the last one.
    Stale {
        /// The epoch.
        epoch: u64,
        /// The last epoch.
        last: u64,
    },
    /// Reads are under way that keep what has to wait for them from being done: it can be asked
    /// for again.
    Busy {
        /// What they keep from being done.
        what: &'static str,
    },
    /// The volume was closed.
    Closed,
    /// This process is a fork of the one that opened the volume.
    Forked,
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
    /// A passphrase is given for a volume that has none.
    NotEncrypted,
    /// A change of the wrapped keys failed, and they may have changed all the same.
    KeysInDoubt {
        /// What failed.
        cause: Box<Error>,
        /// Whether the new ones are durable: else the old ones or the new ones are there.
        are_new: bool,
    },
}

impl Error {
    /// The error of a failed call on `path`: lack of room is [`Error::NoSpace`].
    pub(crate) fn io(op: &'static str, path: &Path, error: std::io::Error) -> Error {
        Error::of_errno(op, path, Errno::from(error))
    }

    /// As [`Error::io`], from a number.
    pub(crate) fn of_errno(op: &'static str, path: &Path, errno: Errno) -> Error {
        match errno {
            Errno::ENOSPC | Errno::EDQUOT => Error::NoSpace { what: op },
            errno => Error::Io {
                op,
                path: path.to_path_buf(),
                errno,
            },
        }
    }

    /// Bytes of `file` from `offset` on are not what was written.
    pub(crate) fn corrupt(file: &str, offset: u64, what: impl Into<String>) -> Error {
        Error::Corrupt {
            file: PathBuf::from(file),
            offset,
            what: what.into(),
        }
    }

    /// Whether a file or directory is not there.
    pub(crate) fn is_absent(&self) -> bool {
        let absent = [Errno::ENOENT, Errno::ENOTDIR];
        matches!(self, Error::Io { errno, .. } if absent.contains(errno))
    }

    /// Whether the disk says that it cannot read what lies there.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(
            self,
            Error::Io {
                errno: Errno::EIO | Errno::ENODATA | Errno::EREMOTEIO,
                ..
            }
        )
    }

    /// Whether this process or machine lacks descriptors, memory or threads (`EAGAIN`), which says
    /// nothing of a disk.
    pub(crate) fn is_shortage(&self) -> bool {
        matches!(
            self,
            Error::Io {
                errno: Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EAGAIN,
                ..
            }
        )
    }

    /// Whether a checkpoint that failed for this has changed nothing, and the next one may do.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Error::NoSpace { .. } | Error::Busy { .. }) || self.is_shortage()
    }

    /// Whether what was written cannot be had: it is damaged, or the disk cannot read it.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Error::Corrupt { .. }) || self.is_unreadable()
    }

    /// What is wrong with the log, without what to do, which who is at it knows.
    pub(crate) fn fault(&self) -> String {
        match self {
            Error::Corrupt { file, offset, what } => {
                format!("{}, byte {offset}: {what}", file.display())
            }
            Error::Gap {
                first,
                newest,
                file,
            } if first == newest => {
                format!("epoch {first} is missing, which {} names", file.display())
            }
            Error::Gap {
                first,
                newest,
                file,
            } => {
                let file = file.display();
                format!("epochs {first} to {newest} are missing, {file} names the last one")
            }
            other => other.to_string(),
        }
    }

    /// The errno for a caller of the filesystem.
    pub fn errno(&self) -> Errno {
        match self {
            Error::NoSpace { .. } | Error::NoRoomToMake { .. } => Errno::ENOSPC,
            Error::Corrupt { .. }
            | Error::Engine { .. }
            | Error::Gap { .. }
            | Error::Stale { .. } => Errno::EIO,
            Error::InUse { .. } => Errno::EBUSY,
            Error::Linked { .. } => Errno::EMLINK,
            Error::NotAVolume { .. }
            | Error::Unfinished { .. }
            | Error::Loading { .. }
            | Error::Newer { .. }
            | Error::UnknownFeature { .. }
            | Error::NotEncrypted => Errno::EINVAL,
            Error::NotEmpty { .. } => Errno::ENOTEMPTY,
            Error::ReadOnly { .. } => Errno::EROFS,
            Error::TooLarge { .. } => Errno::E2BIG,
            Error::Busy { .. } => Errno::EBUSY,
            Error::Closed => Errno::EBADF,
            Error::Forked => Errno::ESTALE,
            Error::Io { errno, .. } => *errno,
            Error::WrongKey { .. } => Errno::EACCES,
            Error::KeysInDoubt { cause, .. } => cause.errno(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoSpace { what } => write!(f, "no room to {what}; remove files or add room"),
            Error::NoRoomToMake { path, needs } => write!(
                f,
                "{}: no room to make the volume, which takes {} MiB before anything is written to \
                 it; remove files or add room",
                path.display(),
                needs.div_ceil(1 << 20)
            ),
            Error::Corrupt { .. } | Error::Gap { .. } => {
                write!(f, "{}; run hearth fsck, or mount with -o ro", self.fault())
            }
            Error::Engine { files, what } => {
                let files = match &files[..] {
                    [] => "engine".to_owned(),
                    files => files.join(", "),
                };
                write!(
                    f,
                    "{files}: {what}; neither a check nor -o ro gets past that: put what is \
                     damaged back from a copy of the volume, or load a dump"
                )
            }
            Error::InUse { path, who } => {
                write!(
                    f,
                    "{}: in use by {who}; unmount it there, or wait for its end",
                    path.display()
                )
            }
            Error::Linked { path } => write!(
                f,
                "{}: has another name, as a copy made of hard links has, and writing would destroy \
                 that copy; make a copy of the directory with 'cp -a' and use that, or read this \
                 one with -o ro",
                path.display()
            ),
            Error::NotAVolume { path, why } => write!(
                f,
                "{}: no volume, {why}; hearth mkfs makes one in an empty directory",
                path.display()
            ),
            Error::Unfinished { path } => write!(
                f,
                "{}: unfinished volume; run hearth mkfs again",
                path.display()
            ),
            Error::Loading { path } => write!(
                f,
                "{}: holds a part of a dump, whose load goes on or was cut off; if it was, remove \
                 the directory and load again",
                path.display()
            ),
            Error::NotEmpty { path, what } => write!(
                f,
                "{}: not empty, there is {what}; give an empty directory",
                path.display()
            ),
            Error::Newer {
                path,
                version,
                known,
            } => write!(
                f,
                "{}: format version {version}, this program knows {known}; use a newer hearth",
                path.display()
            ),
            Error::UnknownFeature {
                path,
                names,
                read_only_works,
            } => write!(
                f,
                "{}: unknown {names}; use a newer hearth{}",
                path.display(),
                if *read_only_works {
                    ", or mount with -o ro"
                } else {
                    ""
                }
            ),
            Error::ReadOnly { why } => write!(f, "read-only: {why}"),
            Error::TooLarge { what, most } => {
                write!(f, "{what} is too large; the store takes {most} bytes")
            }
            Error::Stale { epoch, last } => {
                write!(f, "epoch {epoch} is not newer than {last}, the last one")
            }
            Error::Busy { what } => write!(f, "reads that are under way keep {what}; try again"),
            Error::Closed => write!(f, "the volume was closed; mount it again"),
            Error::Forked => write!(
                f,
                "this process is a fork of the one that opened the volume; open it after the fork"
            ),
            Error::Io { op, path, errno } => write!(f, "{op} {}: {errno}", path.display()),
            Error::WrongKey { why } => write!(
                f,
                "{why}; give the passphrase of the volume with -o encrypt=FILE or -o encrypt=env"
            ),
            Error::NotEncrypted => write!(f, "is not encrypted; leave encrypt out"),
            Error::KeysInDoubt {
                cause,
                are_new: true,
            } => write!(
                f,
                "{cause}; the new passphrase opens the volume all the same; change it once more, \
                 so that the old one opens no copy of the keys"
            ),
            Error::KeysInDoubt { cause, .. } => write!(
                f,
                "{cause}; the old passphrase opens the volume, or the new one: keep both, and \
                 change it again with the one that does"
            ),
        }
    }
}

impl std::error::Error for Error {}
