//! Reading and writing the fields of a value.

use crate::error::{Error, Result};
use hearth_backend::Time;
use std::fmt::Write;

/// An error about the value under `key`.
pub fn corrupt(key: &[u8], what: &str) -> Error {
    let mut shown = String::new();
    if let Some((kind, rest)) = key.split_first() {
        let _ = write!(shown, "key {}", char::from(*kind).escape_default());
        for byte in rest.iter().take(32) {
            let _ = write!(shown, "{byte:02x}");
        }
    }
    Error::Corrupt {
        file: "engine".into(),
        offset: 0,
        what: format!("{shown}: {what}"),
    }
}

/// The fields of a value, one after the other.
pub(super) struct Fields<'a> {
    key: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of `value`, which lies under `key`.
    pub(super) fn new(key: &'a [u8], value: &'a [u8]) -> Fields<'a> {
        Fields { key, rest: value }
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(corrupt(self.key, "the value ends early"));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn time(&mut self) -> Result<Time> {
        let sec = i64::from_le_bytes(self.array()?);
        let nsec = self.u32()?;
        if nsec >= 1_000_000_000 {
            return Err(self.wrong("nanoseconds of a time"));
        }
        Ok(Time { sec, nsec })
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// An error that says what is wrong.
    pub(super) fn wrong(&self, what: &str) -> Error {
        corrupt(self.key, what)
    }

    /// Fails if bytes are left.
    pub(super) fn end(&self) -> Result<()> {
        match self.rest {
            [] => Ok(()),
            _ => Err(self.wrong("bytes behind the value")),
        }
    }
}

/// Appends a time.
pub(super) fn put_time(out: &mut Vec<u8>, time: Time) {
    out.extend_from_slice(&time.sec.to_le_bytes());
    out.extend_from_slice(&time.nsec.to_le_bytes());
}
