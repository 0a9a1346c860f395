//! Volumes as text: where one lives and how it is built.
//!
//! A text is a source, and options behind a question mark, separated by commas:
//! `memory:?size=1G,hot_track`, `store:/srv/volume?compress=zstd`. The library, the command line
//! and mount(8) take the same words.

mod host;
mod opening;
mod options;
mod store;
#[cfg(feature = "store")]
mod stored;

pub use host::{HostQuotaMode, HostSourceOptions};
pub use options::{OptionError, VolumeOptions};
pub use store::{Compress, StoreOptions};
#[cfg(feature = "store")]
pub use stored::is_free;

use crate::volume::{BuildError, Volume};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a volume lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `memory:`, gone with its last handle.
    Memory,
    /// `store:DIR`, kept in this directory.
    Store(PathBuf),
    /// `host:DIR`, or a path: this directory as it is, whose files stay ordinary files. A front end
    /// serves it by itself (crate `hearth-host`).
    Host(PathBuf),
}

/// A source that this version cannot open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// The source as it was given.
    pub source: String,
    /// What is wrong with it.
    pub fault: SourceFault,
}

/// Why a source cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceFault {
    /// It names nothing that is known.
    Unknown,
    /// It would be this in a version that can.
    Later(&'static str),
    /// `store:` or `host:` without a directory.
    NoDirectory,
    /// It needs this Cargo feature of the library, which was built without it.
    LeftOut(&'static str),
}

/// Why a volume was not opened. Which variants there are depends on the features of the library.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The source is unknown.
    Source(SourceError),
    /// An option is unknown or its value makes no sense.
    Option(OptionError),
    /// The store in this directory cannot be opened or made.
    #[cfg(feature = "store")]
    Store(PathBuf, hearth_store::Error),
    /// A directory of the host, which can be mounted and is no [`Volume`].
    Host(PathBuf),
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
    let source: Source = source.parse().map_err(OpenError::Source)?;
    let mut options = VolumeOptions::default();
    for option in given.split(',').map(str::trim).filter(|o| !o.is_empty()) {
        options.set(option).map_err(OpenError::Option)?;
    }
    let builder = source.builder(&options, "a program")?;
    builder.build().map_err(OpenError::Build)
}

impl Source {
    /// Whether these options have a meaning for a volume that lives there.
    ///
    /// # Errors
    /// The first that has none.
    pub fn takes(&self, options: &VolumeOptions) -> Result<(), OptionError> {
        match (self, options.store.given()) {
            (Source::Memory, Some(name)) => Err(OptionError::of_a_store(name)),
            (Source::Memory, None) if options.memory.is_some() => {
                Err(OptionError::of_a_store("memory"))
            }
            (Source::Memory | Source::Store(_), _) if options.xdev => {
                Err(OptionError::of_a_host("xdev"))
            }
            (Source::Memory | Source::Store(_), _) if options.host.given().is_some() => {
                let name = options.host.given().unwrap_or_default();
                Err(OptionError::of_a_host(name))
            }
            (Source::Host(_), Some(name)) => Err(OptionError::not_of_a_host(name)),
            (Source::Host(_), None) => match options.given_to_the_core() {
                Some(name) => Err(OptionError::not_of_a_host(name)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Source, SourceError> {
        let error = |fault| SourceError {
            source: text.to_owned(),
            fault,
        };
        if text.starts_with(['/', '.']) {
            return Ok(Source::Host(text.into()));
        }
        match text.split_once(':') {
            // mount(8) and fstab always give a source, by habit the name of the filesystem.
            None if matches!(text, "hearth" | "none") => Ok(Source::Memory),
            Some(("memory", "")) => Ok(Source::Memory),
            Some(("store", "")) => Err(error(SourceFault::NoDirectory)),
            Some(("store", directory)) => Ok(Source::Store(directory.into())),
            Some(("host", "")) => Err(error(SourceFault::NoDirectory)),
            Some(("host", directory)) => Ok(Source::Host(directory.into())),
            Some(("s3", rest)) if rest.starts_with("//") => {
                Err(error(SourceFault::Later("object storage")))
            }
            None if text.contains('/') => Ok(Source::Host(text.into())),
            _ => Err(error(SourceFault::Unknown)),
        }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = &self.source;
        let used = "use 'memory:', 'store:DIR' or 'host:DIR'";
        match self.fault {
            SourceFault::Later(what) => write!(
                f,
                "source '{source}': {what} cannot be mounted by this version; {used}"
            ),
            SourceFault::LeftOut(feature) => write!(
                f,
                "source '{source}': this program was built without stores; build the library with \
                 its feature '{feature}'"
            ),
            SourceFault::NoDirectory => {
                write!(f, "source '{source}' names no directory; use '{source}DIR'")
            }
            SourceFault::Unknown if source.contains(':') || source.is_empty() => {
                write!(f, "source '{source}' is unknown; {used}")
            }
            SourceFault::Unknown => write!(
                f,
                "source '{source}' is unknown; {used}, or './{source}' for a directory of that name"
            ),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Memory => f.write_str("memory:"),
            Source::Store(directory) => write!(f, "store:{}", directory.display()),
            Source::Host(directory) => write!(f, "host:{}", directory.display()),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Source(error) => error.fmt(f),
            OpenError::Option(error) => error.fmt(f),
            #[cfg(feature = "store")]
            OpenError::Store(directory, error) => {
                let (shown, line) = (directory.display().to_string(), error.to_string());
                match line.starts_with(&shown) {
                    true => f.write_str(&line),
                    false => write!(f, "{shown}: {line}"),
                }
            }
            OpenError::Host(directory) => write!(
                f,
                "host:{}: a directory of the host can be mounted, and not be opened; mount it, or \
                 use the directory itself",
                directory.display()
            ),
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
        let store = Source::Store("/var/lib/a:b".into());
        assert_eq!("store:/var/lib/a:b".parse(), Ok(store));
        for text in ["host:/srv/a:b", "/srv/a:b"] {
            assert_eq!(text.parse(), Ok(Source::Host("/srv/a:b".into())), "{text}");
        }
        for path in ["./d", "..", ".", "d/e", "/"] {
            assert_eq!(path.parse(), Ok(Source::Host(path.into())), "{path}");
        }
        for (text, word, remedy) in [
            ("bogus:", "unknown", "use 'memory:'"),
            ("bogus", "unknown", "use 'memory:'"),
            ("", "unknown", "use 'memory:'"),
            ("memory:x", "unknown", "use 'memory:'"),
            ("host:", "no directory", "use 'host:DIR'"),
            ("s3://bucket/prefix", "object storage", "use 'memory:'"),
            ("store:", "no directory", "use 'store:DIR'"),
        ] {
            let error = text.parse::<Source>().expect_err(text).to_string();
            for part in [&*format!("'{text}'"), word, remedy] {
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
            (
                "memory:?commit=1",
                "option 'commit': expected a source store:DIR",
            ),
            (
                "memory:?memory=64M",
                "option 'memory': expected a source store:DIR or host:DIR",
            ),
            (
                "/srv?memory=64M",
                "host:/srv: a directory of the host can be mounted",
            ),
            ("memory:?xdev", "option 'xdev': expected a source host:DIR"),
            ("/srv?size=1G", "option 'size': expected none for a host"),
            (
                "/srv?quota=now",
                "option 'quota=now': expected wait, background or off",
            ),
            ("/srv?create", "option 'create': expected none for a host"),
            ("/srv?noatime", "option 'noatime': expected none for a host"),
            (
                "/srv?ro",
                "host:/srv: a directory of the host can be mounted",
            ),
            (
                "memory:?create",
                "option 'create': expected a source store:DIR",
            ),
            ("store:/d?commit=0", "option 'commit=0': expected seconds"),
            (
                "store:/d?compress=zip",
                "option 'compress=zip': expected none, lz4",
            ),
            (
                "store:/d?memory=1k",
                "option 'memory=1k': expected at least 16 MiB",
            ),
            (
                "store:/d?encrypt=",
                "option 'encrypt=': expected the name of a file",
            ),
        ] {
            let Err(error) = open(text) else {
                panic!("{text} opens");
            };
            let error = error.to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
