//! Values as text: the version of the form, then words `name=value`, such as
//! `1 bytes=4096:- inodes-grace=3600`.
//!
//! A newer version of the program may add words, which an older one passes over. If a word comes to
//! mean something else the version rises, and an older program does not read the value.

use std::fmt::{Display, Write};

/// The version of the form.
const VERSION: &str = "1";

/// A value that this program cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undecodable;

/// A value to be written.
pub(crate) struct WordsBuf(String);

impl WordsBuf {
    pub fn new() -> WordsBuf {
        WordsBuf(VERSION.to_owned())
    }

    pub fn put(mut self, name: &str, value: impl Display) -> WordsBuf {
        // A string takes everything.
        let _ = write!(self.0, " {name}={value}");
        self
    }

    /// Puts a word if there is a value.
    pub fn put_some(self, name: &str, value: Option<impl Display>) -> WordsBuf {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    /// The value; `None` without any word.
    pub fn finish(self) -> Option<Box<[u8]>> {
        (self.0 != VERSION).then(|| self.0.into_bytes().into())
    }
}

/// A value to be read.
pub(crate) struct Words<'v>(&'v str);

impl<'v> Words<'v> {
    pub fn of(value: &'v [u8]) -> Result<Words<'v>, Undecodable> {
        let text = std::str::from_utf8(value).map_err(|_| Undecodable)?;
        let words = text.strip_prefix(VERSION).ok_or(Undecodable)?;
        match words.chars().next() {
            None | Some(' ') => Ok(Words(words)),
            Some(_) => Err(Undecodable),
        }
    }

    /// The value of a word, if it is there.
    pub fn get(&self, name: &str) -> Option<&'v str> {
        let mut words = self.0.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// The value of a word, read from its text.
    pub fn parse<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Undecodable> {
        let parse = |text: &str| text.parse().map_err(|_| Undecodable);
        self.get(name).map(parse).transpose()
    }

    /// [`Words::parse`] of a word that must be there.
    pub fn need<T: std::str::FromStr>(&self, name: &str) -> Result<T, Undecodable> {
        self.parse(name)?.ok_or(Undecodable)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_by_their_whole_name_and_others_are_passed_over() {
        let value = WordsBuf::new().put("bytes-grace", 7).put("bytes", 5);
        let value = value.put_some("inodes", None::<u64>).finish();
        let value = value.expect("has words");
        assert_eq!(&*value, b"1 bytes-grace=7 bytes=5");
        let words = Words::of(&value).expect("of this version");
        assert_eq!(words.need("bytes"), Ok(5u64));
        assert_eq!(words.need("bytes-grace"), Ok(7u64));
        assert_eq!(words.parse::<u64>("grace"), Ok(None));
        assert_eq!(words.need::<u64>("inodes"), Err(Undecodable));
        assert!(WordsBuf::new().finish().is_none(), "nothing to say");
    }

    #[test]
    fn nonsense_and_other_versions_are_not_read() {
        for value in [&b""[..], b"2 bytes=1", b"11 bytes=1", b"\xff", b"bytes=1"] {
            assert!(Words::of(value).is_err(), "{value:?}");
        }
        let words = Words::of(b"1 bytes=many").expect("of this version");
        assert_eq!(words.parse::<u64>("bytes"), Err(Undecodable));
    }
}
