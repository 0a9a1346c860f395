//! Names of directory entries and their hash.

use crate::errno::{Errno, Result};
use ahash::RandomState;

/// Longest name in bytes.
pub const NAME_MAX: usize = 255;

/// Checks a single component: 1 to 255 bytes, no `/`, no NUL, not `.` or `..`.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        [] => Err(Errno::ENOENT),
        _ if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
        b"." | b".." => Err(Errno::EEXIST),
        _ if name.iter().any(|&b| b == b'/' || b == 0) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Keyed hash of a name: 62 bits, never 0. The upper bits choose the bucket and order a listing, so
/// that a table may grow during a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameHash(u64);

impl NameHash {
    /// Bits of a hash. A cookie has the same width, so that it stays positive as `off_t`.
    pub const BITS: u32 = 62;

    pub fn of(keys: &RandomState, name: &[u8]) -> NameHash {
        NameHash((keys.hash_one(name) >> (64 - Self::BITS)).max(1 << Self::PROBE_BITS))
    }

    /// The hash with this value.
    #[cfg(test)]
    pub fn from_value(value: u64) -> NameHash {
        NameHash(value)
    }

    /// Low bits in which the cookies of entries with one hash may differ.
    pub const PROBE_BITS: u32 = 16;

    pub fn value(self) -> u64 {
        self.0
    }

    /// Index of the bucket in a table of `1 << log2` buckets.
    pub fn bucket(self, log2: u32) -> usize {
        bucket_of(self.0, log2)
    }

    /// The bits that are kept beside the pointer to an entry, so that who looks for a name does not
    /// follow the pointers to all others of a bucket, and who looks for a free cookie does not
    /// either: cookies can only be the same where these bits are, and they choose no bucket.
    pub fn tag(self) -> u16 {
        (self.0 >> Self::PROBE_BITS) as u16
    }
}

/// Index of the bucket of a cookie or hash.
pub(crate) fn bucket_of(hash: u64, log2: u32) -> usize {
    if log2 == 0 {
        0
    } else {
        (hash >> (NameHash::BITS - log2)) as usize
    }
}
