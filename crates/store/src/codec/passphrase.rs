//! Where a passphrase comes from.

use crate::error::{Error, Result};
use crate::given_file::GivenFile;
use hearth_backend::Errno;
use std::path::Path;
use zeroize::Zeroizing;

/// The environment variable that `env` means.
pub const VARIABLE: &str = "HEARTH_PASSPHRASE";

/// Bytes of a passphrase at most: a path to something else is told from a passphrase.
const LEN_MAX: usize = 4096;

const TOO_LONG: &str = "the passphrase is longer than 4,096 bytes";

/// A passphrase, wiped when it is dropped.
#[derive(Clone)]
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// The passphrase that an option names: `env` is the variable [`VARIABLE`], anything else a
    /// file. One newline at the end does not count.
    ///
    /// # Errors
    /// [`Error::WrongKey`] where it is absent, empty or too long; [`Error::Io`] where the file
    /// cannot be read.
    pub fn from_source(source: &str) -> Result<Passphrase> {
        if source == "env" {
            return match std::env::var_os(VARIABLE) {
                Some(value) => Passphrase::new(value.into_encoded_bytes()),
                None => Err(Error::WrongKey {
                    why: "the variable HEARTH_PASSPHRASE is not set",
                }),
            };
        }
        Passphrase::from_file(Path::new(source))
    }

    /// What a file has, less one newline at the end.
    ///
    /// # Errors
    /// [`Error::WrongKey`] where it is empty, too long or a named pipe; [`Error::Io`] where it
    /// cannot be read.
    pub fn from_file(path: &Path) -> Result<Passphrase> {
        let given = GivenFile::read(path, LEN_MAX + 1).map_err(|error| Error::Io {
            op: "open",
            path: path.to_path_buf(),
            errno: Errno::from(error),
        })?;
        match given {
            GivenFile::Whole(bytes) => Passphrase::new(bytes),
            GivenFile::TooLong => Err(Error::WrongKey { why: TOO_LONG }),
            GivenFile::NamedPipe => Err(Error::WrongKey {
                why: "a named pipe is no file with a passphrase",
            }),
        }
    }

    /// These bytes, less one newline at the end.
    ///
    /// # Errors
    /// [`Error::WrongKey`] where nothing is left, or too much.
    pub fn new(bytes: Vec<u8>) -> Result<Passphrase> {
        let mut bytes = Zeroizing::new(bytes);
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        let why = match bytes.len() {
            0 => "the passphrase is empty",
            1..=LEN_MAX => return Ok(Passphrase(bytes)),
            _ => TOO_LONG,
        };
        Err(Error::WrongKey { why })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passphrase")
    }
}
