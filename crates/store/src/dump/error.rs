//! Why a dump was not written or not loaded.

use hearth_backend::Errno;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Dumped of writing or loading a dump.
pub type Dumped<T> = std::result::Result<T, DumpError>;

/// Why a dump was not written or not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpError {
    /// The stream could not be read or written.
    Stream {
        /// `read` or `write`.
        op: &'static str,
        /// Its errno.
        errno: Errno,
    },
    /// The stream is no dump, or a damaged one.
    Damaged {
        /// The byte of the stream up to which all was well.
        offset: u64,
        /// What is wrong behind it.
        fault: StreamFault,
    },
    /// A file of the volume or the directory could not be read or made.
    At {
        /// Path inside it.
        path: Vec<u8>,
        /// What was done.
        op: &'static str,
        /// Its errno.
        errno: Errno,
    },
    /// A file of the volume is as no loader takes it.
    Unloadable {
        /// Path inside the volume.
        path: Vec<u8>,
        /// What a loader would say.
        fault: StreamFault,
    },
    /// Somebody else has put another file where this load had made one.
    Replaced {
        /// Path inside the directory.
        path: Vec<u8>,
    },
    /// The place holds something already.
    NotEmpty,
    /// Files have more room set aside than the disk has.
    NoRoom {
        /// Bytes that are set aside.
        needs: u64,
        /// Bytes that are free.
        room: u64,
    },
    /// The files are larger than the volume may be.
    TooLarge {
        /// Bytes that the files take.
        needs: u64,
        /// Size of the volume in bytes.
        size: u64,
    },
}

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// It does not begin as a dump does.
    NoDump,
    /// It has a version that is not known.
    Newer(u32),
    /// It ends before its end.
    Truncated,
    /// No header where one should be.
    NoHeader,
    /// Records that cannot be read.
    NoRecords,
    /// A record whose value makes no sense.
    Record {
        /// Its key.
        key: &'static str,
    },
    /// A map of a sparse file that makes no sense.
    Map,
    /// A member of a kind that no dump has.
    Kind(u8),
    /// A path that no dump has: absolute, with an empty part, `.` or `..`.
    Path,
    /// A member whose directory did not come before it.
    Orphan,
    /// A name that comes twice.
    Twice,
    /// Another name of a file that did not come before it.
    LinkToNothing,
    /// The digest at the end is not that of the bytes before it.
    Digest,
}

impl DumpError {
    /// An error of a file inside the volume or directory.
    pub(super) fn at(path: &[u8], op: &'static str) -> impl Fn(Errno) -> DumpError + use<> {
        let path = if path.is_empty() { b"." } else { path }.to_vec();
        move |errno| DumpError::At {
            path: path.clone(),
            op,
            errno,
        }
    }
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamFault::NoDump => {
                f.write_str("this is no dump of a volume; give a file that 'hearth dump' wrote")
            }
            StreamFault::Newer(version) => write!(
                f,
                "the dump has format {version}; load it with the newer hearth that wrote it"
            ),
            StreamFault::Truncated => f.write_str("the dump ends too early; take it again"),
            StreamFault::NoHeader => {
                f.write_str("no header here; the dump is damaged, use another copy")
            }
            StreamFault::NoRecords => {
                f.write_str("records that cannot be read; the dump is damaged, use another copy")
            }
            StreamFault::Record { key } => write!(
                f,
                "record {key} makes no sense; the dump is damaged, use another copy"
            ),
            StreamFault::Map => {
                f.write_str("a map of holes makes no sense; the dump is damaged, use another copy")
            }
            StreamFault::Kind(kind) => write!(
                f,
                "a member of kind {:?}; this archive is not from 'hearth dump'",
                char::from(*kind)
            ),
            StreamFault::Path => {
                f.write_str("a path that no dump has; this archive is not from 'hearth dump'")
            }
            StreamFault::Orphan => {
                f.write_str("a member before its directory; this archive is not from 'hearth dump'")
            }
            StreamFault::Twice => {
                f.write_str("a name that was there already; this archive is not from 'hearth dump'")
            }
            StreamFault::LinkToNothing => f.write_str(
                "a link to what was not there before; this archive is not from 'hearth dump'",
            ),
            StreamFault::Digest => {
                f.write_str("the digest at its end does not fit; use another copy")
            }
        }
    }
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpError::Stream { op, errno } => write!(f, "the dump, {op}: {errno}"),
            DumpError::Damaged { offset, fault } => write!(f, "the dump, byte {offset}: {fault}"),
            DumpError::At { path, op, errno } => {
                let path = Path::new(std::ffi::OsStr::from_bytes(path));
                write!(f, "'{}', {op}: {errno}", path.display())
            }
            DumpError::Unloadable { path, fault } => {
                let path = Path::new(std::ffi::OsStr::from_bytes(path));
                let what = match fault {
                    StreamFault::Record { key } => key,
                    _ => "path",
                };
                write!(
                    f,
                    "'{}' has a {what} that no volume has; run hearth fsck --repair before a dump",
                    path.display()
                )
            }
            DumpError::Replaced { path } => {
                let path = Path::new(std::ffi::OsStr::from_bytes(path));
                write!(
                    f,
                    "'{}' was replaced while it was loaded; load where nobody else may write",
                    path.display()
                )
            }
            DumpError::NoRoom { needs, room } => write!(
                f,
                "its files have {needs} bytes set aside, the disk has {room}; load on a larger one"
            ),
            DumpError::TooLarge { needs, size } => write!(
                f,
                "the files take {needs} bytes, the volume may have {size}; load with \
                 -o size={needs} or more"
            ),
            DumpError::NotEmpty => f.write_str("holds files already; give a new or an empty place"),
        }
    }
}

impl std::error::Error for DumpError {}

/// The number of an error of a system call.
pub(super) fn of(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}
