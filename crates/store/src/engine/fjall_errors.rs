//! What errors of fjall mean.

use super::FOLDER;
use crate::error::Error;
use hearth_backend::Errno;
use std::io;
use std::io::ErrorKind::{
    InvalidData, InvalidInput, Other, QuotaExceeded, StorageFull, UnexpectedEof,
};
use std::path::Path;

/// The file by which the engine knows its format.
const VERSION: &str = "engine/version";

/// Turns an error of fjall at `op` into one of the store.
pub(super) fn failed(op: &'static str) -> impl Fn(fjall::Error) -> Error {
    move |error| {
        let file = Path::new(FOLDER);
        match error {
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
                match (error.raw_os_error(), error.kind()) {
                    (Some(_), _) => Error::io(op, file, error),
                    // What was read makes no sense.
                    (_, UnexpectedEof | InvalidData | InvalidInput | Other) => {
                        Error::corrupt(FOLDER, 0, format!("cannot {op}: {error}"))
                    }
                    // The file that becomes `current` is written through a wrapper that keeps the
                    // kind of an error and not its number.
                    (_, StorageFull | QuotaExceeded) => Error::NoSpace { what: op },
                    _ => match number_in_words(&error) {
                        Some(number) => Error::io(op, file, io::Error::from_raw_os_error(number)),
                        None => Error::of_errno(op, file, Errno::EIO),
                    },
                }
            }
            fjall::Error::Locked => Error::Io {
                op,
                path: file.to_path_buf(),
                errno: Errno::EBUSY,
            },
            other => {
                let file = match other {
                    // Lists and parts of tables have checksums, which come first.
                    fjall::Error::InvalidVersion(_)
                    | fjall::Error::Storage(fjall::LsmError::InvalidVersion(_)) => VERSION,
                    _ => FOLDER,
                };
                Error::corrupt(file, 0, format!("cannot {op}: {}", why(&other)))
            }
        }
    }
}

/// The number that the words of an error end with: a lack of descriptors is no broken disk.
fn number_in_words(error: &io::Error) -> Option<i32> {
    let words = error.to_string();
    let (_, number) = words.split_once("(os error ")?;
    number.split_once(')')?.0.parse().ok()
}

/// What fjall has found, in words: its own are those of its source.
fn why(error: &fjall::Error) -> &'static str {
    use fjall::LsmError;
    match error {
        fjall::Error::Storage(LsmError::ChecksumMismatch { .. }) => {
            "a part of a table does not fit its checksum"
        }
        fjall::Error::Storage(LsmError::Unrecoverable) | fjall::Error::Unrecoverable => {
            "files of the engine are missing or not its own"
        }
        fjall::Error::Storage(LsmError::InvalidVersion(_)) | fjall::Error::InvalidVersion(_) => {
            "a file has a version that the engine does not know"
        }
        fjall::Error::Storage(_) => "a part of a table makes no sense",
        fjall::Error::Poisoned => "a write to its disk has failed before",
        _ => "a file of the engine makes no sense",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file that becomes `current` is written through `tempfile`.
    fn as_tempfile_tells(kind: io::ErrorKind) -> Error {
        failed("merge tables")(fjall::Error::Io(io::Error::new(kind, "at a path")))
    }

    /// Once, a disk that was full when the file that becomes `current` was written was taken for
    /// damage, and the volume was read-only.
    #[test]
    fn an_error_that_has_lost_its_number_is_still_told_by_its_kind() {
        for kind in [StorageFull, QuotaExceeded] {
            let error = as_tempfile_tells(kind);
            assert!(matches!(error, Error::NoSpace { .. }), "{kind}: {error:?}");
        }
        let refused = as_tempfile_tells(io::ErrorKind::ReadOnlyFilesystem);
        assert!(matches!(refused, Error::Io { .. }), "{refused:?}");
        for number in [24, 12] {
            let error = io::Error::from_raw_os_error(number);
            let told = io::Error::new(error.kind(), format!("{error} at a path"));
            let error = failed("merge tables")(fjall::Error::Io(told));
            assert!(error.is_shortage(), "{error:?}");
        }
        let cut = as_tempfile_tells(UnexpectedEof);
        assert!(matches!(cut, Error::Corrupt { .. }), "{cut:?}");
    }
}
