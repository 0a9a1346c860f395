//! Options of a volume that is kept in a store: plain data, and how each is read.

use crate::amount;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the options of a store say; what is absent is as the volume was made, or the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// `memory=BYTES` for names, inodes and pages; an eighth of the machine's by default.
    pub memory: Option<u64>,
    /// `commit=SECONDS` between commits that nobody asked for; 5 by default.
    pub commit: Option<Duration>,
    /// `compress=none|lz4|zstd[:LEVEL]` of data that is written from now on.
    pub compress: Option<Compress>,
    /// `encrypt=FILE|env`: where the passphrase is.
    pub encrypt: Option<PassphraseFrom>,
    /// `create`: a new or empty directory becomes a volume.
    pub create: bool,
}

/// How data is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compress {
    /// Not at all.
    None,
    /// Fast.
    Lz4,
    /// Small, by this level: 1 to 22.
    Zstd(u8),
}

/// Where a passphrase is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassphraseFrom {
    /// The variable [`PASSPHRASE`] of the environment.
    Environment,
    /// The first line of this file.
    File(PathBuf),
}

/// A passphrase that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassphraseError {
    /// Where it should have been.
    pub from: PassphraseFrom,
    /// Why it is not there.
    pub why: String,
}

/// The variable that `encrypt=env` reads.
pub const PASSPHRASE: &str = "HEARTH_PASSPHRASE";

/// Compression level of `zstd` without a number.
const ZSTD_LEVEL: u8 = 3;

/// Most bytes of a passphrase.
const PASSPHRASE_MAX: usize = 64 << 10;

impl StoreOptions {
    /// Reads `name=value`. `None`: this is no option of a store. `Err`: what the value may be.
    pub(super) fn set_value(
        &mut self,
        name: &str,
        value: &str,
    ) -> Option<Result<(), &'static str>> {
        let done = match name {
            "memory" => amount::bytes(value)
                .ok()
                .filter(|&bytes| bytes >= MEMORY_MIN)
                .map(|bytes| self.memory = Some(bytes))
                .ok_or("at least 16 MiB, such as 512MiB or 2G"),
            "commit" => seconds(value)
                .map(|interval| self.commit = Some(interval))
                .ok_or("seconds, 0.01 to 3600"),
            "compress" => value.parse().map(|compress| self.compress = Some(compress)),
            "encrypt" => value.parse().map(|from| self.encrypt = Some(from)),
            _ => return None,
        };
        Some(done)
    }

    /// The first option that was given, by name.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.memory.is_some(), "memory"),
            (self.commit.is_some(), "commit"),
            (self.compress.is_some(), "compress"),
            (self.encrypt.is_some(), "encrypt"),
            (self.create, "create"),
        ];
        given.iter().find(|(is, _)| *is).map(|(_, name)| *name)
    }

    /// Time between commits that nobody asked for.
    pub fn commit_interval(&self) -> Duration {
        self.commit.unwrap_or(Duration::from_secs(5))
    }
}

/// Less memory than this cannot hold what a few requests need at once.
const MEMORY_MIN: u64 = 16 << 20;

fn seconds(value: &str) -> Option<Duration> {
    let seconds: f64 = value.parse().ok()?;
    (0.01..=3600.0)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

impl std::str::FromStr for Compress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Compress, &'static str> {
        let expected = "none, lz4, zstd or zstd:LEVEL with 1 to 22";
        match text {
            "none" => Ok(Compress::None),
            "lz4" => Ok(Compress::Lz4),
            "zstd" => Ok(Compress::Zstd(ZSTD_LEVEL)),
            _ => text
                .strip_prefix("zstd:")
                .and_then(|level| level.parse().ok())
                .filter(|level| (1..=22).contains(level))
                .map(Compress::Zstd)
                .ok_or(expected),
        }
    }
}

impl fmt::Display for Compress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compress::None => f.write_str("none"),
            Compress::Lz4 => f.write_str("lz4"),
            Compress::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

impl std::str::FromStr for PassphraseFrom {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<PassphraseFrom, &'static str> {
        match text {
            "" => Err("the name of a file with the passphrase, or env"),
            "env" => Ok(PassphraseFrom::Environment),
            file => Ok(PassphraseFrom::File(file.into())),
        }
    }
}

impl PassphraseFrom {
    /// Reads the passphrase. A line end behind it is not part of it.
    ///
    /// # Errors
    /// It is not there, or it is empty.
    pub fn read(&self) -> Result<Vec<u8>, PassphraseError> {
        let error = |why: String| PassphraseError {
            from: self.clone(),
            why,
        };
        let mut passphrase = match self {
            PassphraseFrom::Environment => {
                use std::os::unix::ffi::OsStringExt;
                let value = std::env::var_os(PASSPHRASE);
                value
                    .map(OsStringExt::into_vec)
                    .ok_or_else(|| error("is not set; export it".to_owned()))?
            }
            PassphraseFrom::File(file) => first_line(file).map_err(error)?,
        };
        if passphrase.last() == Some(&b'\n') {
            passphrase.pop();
        }
        if passphrase.is_empty() {
            return Err(error("holds no passphrase".to_owned()));
        }
        Ok(passphrase)
    }
}

/// The first line of a file: a passphrase is one line, whatever an editor puts behind it.
fn first_line(file: &Path) -> Result<Vec<u8>, String> {
    use std::io::{BufRead, BufReader, Read};
    let opened = std::fs::File::open(file);
    let opened =
        opened.map_err(|error| format!("{}; give a file that can be read", reason(&error)))?;
    let mut line = Vec::new();
    BufReader::new(opened.take(PASSPHRASE_MAX as u64 + 1))
        .read_until(b'\n', &mut line)
        .map_err(|error| format!("{}; give a file that can be read", reason(&error)))?;
    if line.len() > PASSPHRASE_MAX {
        return Err("its first line is over 64 KiB; give a shorter passphrase".to_owned());
    }
    Ok(line)
}

/// The reason alone, without the number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

impl fmt::Display for PassphraseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            PassphraseFrom::Environment => write!(f, "encrypt=env: {PASSPHRASE} {}", self.why),
            PassphraseFrom::File(file) => write!(f, "encrypt={}: {}", file.display(), self.why),
        }
    }
}

impl std::error::Error for PassphraseError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_read_and_said_in_the_same_words() {
        for (text, wanted) in [
            ("none", Compress::None),
            ("lz4", Compress::Lz4),
            ("zstd:3", Compress::Zstd(3)),
            ("zstd:22", Compress::Zstd(22)),
        ] {
            assert_eq!(text.parse(), Ok(wanted));
            assert_eq!(wanted.to_string(), text);
        }
        assert_eq!("zstd".parse(), Ok(Compress::Zstd(3)));
        for text in ["", "gzip", "zstd:0", "zstd:23", "zstd:", "zstd:x", "lz4:1"] {
            assert!(text.parse::<Compress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_passphrase_is_the_first_line_of_its_file() {
        let file = std::env::temp_dir().join(format!("hearth-passphrase-{}", std::process::id()));
        let from = PassphraseFrom::File(file.clone());
        for (text, wanted) in [
            ("secret", Some("secret")),
            ("secret \nmore\n", Some("secret ")),
            ("\n", None),
            ("", None),
        ] {
            std::fs::write(&file, text).expect("a file is written");
            let read = from.read().ok();
            assert_eq!(read.as_deref(), wanted.map(str::as_bytes), "{text:?}");
        }
        std::fs::remove_file(&file).expect("the file is removed");
        let error = from.read().expect_err("no file").to_string();
        assert!(
            error.contains("encrypt=") && error.contains("; give"),
            "{error}"
        );
    }
}
