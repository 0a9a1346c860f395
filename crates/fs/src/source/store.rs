//! Options of a volume that is kept in a store: plain data, and how each is read.

use std::fmt;
use std::time::Duration;

/// What the options of a store say; what is absent is as the volume was made, or the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// `commit=SECONDS` between commits that nobody asked for; 5 by default.
    pub commit: Option<Duration>,
    /// `compress=none|lz4|zstd[:LEVEL]` of data that is written from now on.
    pub compress: Option<Compress>,
    /// `encrypt=FILE|env`: the file that holds the passphrase, or `env` for the variable
    /// `HEARTH_PASSPHRASE`.
    pub encrypt: Option<String>,
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
    /// Small, by this level: 1 to 19.
    Zstd(u8),
}

/// Compression level of `zstd` without a number.
const ZSTD_LEVEL: u8 = 3;

impl StoreOptions {
    /// Reads `name=value`. `None`: this is no option of a store. `Err`: what the value may be.
    pub(super) fn set_value(
        &mut self,
        name: &str,
        value: &str,
    ) -> Option<Result<(), &'static str>> {
        let done = match name {
            "commit" => seconds(value)
                .map(|interval| self.commit = Some(interval))
                .ok_or("seconds, 0.01 to 3600"),
            "compress" => value.parse().map(|compress| self.compress = Some(compress)),
            "encrypt" if value.is_empty() => Err("the name of a file with the passphrase, or env"),
            "encrypt" => {
                self.encrypt = Some(value.to_owned());
                Ok(())
            }
            _ => return None,
        };
        Some(done)
    }

    /// The first option that was given, by name.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
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

fn seconds(value: &str) -> Option<Duration> {
    let seconds: f64 = value.parse().ok()?;
    (0.01..=3600.0)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

impl std::str::FromStr for Compress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Compress, &'static str> {
        let expected = "none, lz4, zstd or zstd:LEVEL with 1 to 19";
        match text {
            "none" => Ok(Compress::None),
            "lz4" => Ok(Compress::Lz4),
            "zstd" => Ok(Compress::Zstd(ZSTD_LEVEL)),
            _ => text
                .strip_prefix("zstd:")
                .and_then(|level| level.parse().ok())
                .filter(|level| (1..=19).contains(level))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_read_and_said_in_the_same_words() {
        for (text, wanted) in [
            ("none", Compress::None),
            ("lz4", Compress::Lz4),
            ("zstd:3", Compress::Zstd(3)),
            ("zstd:19", Compress::Zstd(19)),
        ] {
            assert_eq!(text.parse(), Ok(wanted));
            assert_eq!(wanted.to_string(), text);
        }
        assert_eq!("zstd".parse(), Ok(Compress::Zstd(3)));
        for text in ["", "gzip", "zstd:0", "zstd:20", "zstd:", "zstd:x", "lz4:1"] {
            assert!(text.parse::<Compress>().is_err(), "{text}");
        }
    }
}
