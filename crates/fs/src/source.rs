//! Volumes as text: where one lives and how it is built.
//!
//! A text is a source, and options behind a question mark, separated by commas:
//! `memory:?size=1G,hot_track`. The library, the command line and mount(8) take the same words.

mod options;

pub use options::{OptionError, VolumeOptions};

use crate::volume::{BuildError, Volume};
use std::fmt;
use std::str::FromStr;

/// Where a volume lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `memory:`, gone with its last handle.
    Memory,
}

/// A source that this version cannot open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// The source as it was given.
    pub source: String,
    /// What it would be in a version that can; `None` if it is unknown.
    pub later: Option<&'static str>,
}

/// Why a volume was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The source is unknown.
    Source(SourceError),
    /// An option is unknown or its value makes no sense.
    Option(OptionError),
    /// The volume cannot be built.
    Build(BuildError),
}

/// Opens the volume that a text names, such as `memory:?size=1G`.
///
/// ```
/// let volume = hearth::open("memory:?size=1G,inodes=10k")?;
/// let process = volume.process(hearth::Credentials::root());
/// assert_eq!(process.statfs("/")?.blocks * 4096, 1 << 30);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The source or an option is not known, or the volume cannot be built; nothing is made then.
pub fn open(text: &str) -> Result<Volume, OpenError> {
    let (source, given) = text.split_once('?').unwrap_or((text, ""));
    let Source::Memory = source.parse().map_err(OpenError::Source)?;
    let mut options = VolumeOptions::default();
    for option in given.split(',').map(str::trim).filter(|o| !o.is_empty()) {
        options.set(option).map_err(OpenError::Option)?;
    }
    let builder = options.apply(Volume::builder());
    builder.build().map_err(OpenError::Build)
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Source, SourceError> {
        let error = |later| SourceError {
            source: text.to_owned(),
            later,
        };
        match text.split_once(':') {
            // mount(8) and fstab always give a source, by habit the name of the filesystem.
            None if matches!(text, "hearth" | "none") => Ok(Source::Memory),
            Some(("memory", "")) => Ok(Source::Memory),
            Some(("host", _)) => Err(error(Some("a host directory"))),
            Some(("s3", rest)) if rest.starts_with("//") => Err(error(Some("object storage"))),
            None if text.contains('/') => Err(error(Some("a store directory"))),
            _ => Err(error(None)),
        }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = &self.source;
        match self.later {
            Some(what) => write!(
                f,
                "source '{source}': {what} cannot be mounted by this version; use 'memory:'"
            ),
            None => write!(f, "source '{source}' is unknown; use 'memory:'"),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Source(error) => error.fmt(f),
            OpenError::Option(error) => error.fmt(f),
            OpenError::Build(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SourceError {}
impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling_of_a_source_is_known_or_refused_with_the_remedy() {
        for text in ["memory:", "hearth", "none"] {
            assert_eq!(text.parse(), Ok(Source::Memory), "{text}");
        }
        for (text, word) in [
            ("bogus:", "unknown"),
            ("bogus", "unknown"),
            ("", "unknown"),
            ("memory:x", "unknown"),
            ("host:/srv", "host directory"),
            ("s3://bucket/prefix", "object storage"),
            ("/var/lib/volume", "store directory"),
        ] {
            let error = text.parse::<Source>().expect_err(text).to_string();
            for part in [&*format!("'{text}'"), word, "use 'memory:'"] {
                assert!(error.contains(part), "{error}");
            }
        }
    }

    #[test]
    fn a_text_names_source_and_options() {
        assert!(open("memory:").is_ok());
        assert!(open("memory:?ro, hot_track").expect("opens").heat().is_on());
        for (text, word) in [
            ("bogus:?size=1G", "source 'bogus:'"),
            ("memory:?sizes=1G", "unknown option 'sizes'"),
            ("memory:?size=1", "option 'size=1': expected at least 4096"),
            ("memory:?transport=dev", "unknown option 'transport'"),
        ] {
            let Err(error) = open(text) else {
                panic!("{text} opens");
            };
            let error = error.to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
