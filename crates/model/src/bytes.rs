//! Byte strings that print as Rust source, so that a failing script can be pasted into a test.

use std::fmt;
use std::ops::Deref;

/// A path, a name or a value: any bytes. Its `Debug` form is the call that makes it again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub Vec<u8>);

/// Makes [`Bytes`] from a literal: `bytes("a/b")` or `bytes(b"\xff")`.
pub fn bytes(source: impl AsRef<[u8]>) -> Bytes {
    Bytes(source.as_ref().to_vec())
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes(b\"{}\")", self.0.escape_ascii())
    }
}
