//! Where a volume lives, as typed on the command line.

use crate::failure::Failure;

/// A source that this version can mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `memory:`, gone after the unmount.
    Memory,
}

impl Source {
    /// Reads a source.
    ///
    /// # Errors
    /// One line for a source that is unknown, or known and not in this version.
    pub fn parse(text: &str) -> Result<Source, Failure> {
        let later = |what: &str| {
            Failure::usage(format!(
                "source '{text}': {what} cannot be mounted by this version; use 'memory:'"
            ))
        };
        match text.split_once(':') {
            // mount(8) and fstab always give a source, by habit the name of the filesystem.
            None if matches!(text, "hearth" | "none") => Ok(Source::Memory),
            Some(("memory", "")) => Ok(Source::Memory),
            Some(("host", _)) => Err(later("a host directory")),
            Some(("s3", rest)) if rest.starts_with("//") => Err(later("object storage")),
            None if text.contains('/') => Err(later("a store directory")),
            _ => Err(Failure::usage(format!(
                "source '{text}' is unknown; use 'memory:'"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_has_its_answer() {
        for text in ["memory:", "hearth", "none"] {
            assert_eq!(Source::parse(text), Ok(Source::Memory), "{text}");
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
            let failure = Source::parse(text).expect_err(text);
            assert_eq!(failure.status, 2);
            assert!(failure.line.contains(&format!("'{text}'")), "{failure:?}");
            assert!(failure.line.contains(word), "{failure:?}");
            assert!(failure.line.contains("use 'memory:'"), "{failure:?}");
        }
    }
}
