//! Where a block is: what a record of an extent carries.

use super::layout::{BLOCK_MAX, Digest, HEAD, STORED_MAX};
use crate::codec::Codec;
use std::ops::Range;

/// A block in a segment, or the part of it from a byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Number of the segment.
    pub segment: u64,
    /// Byte of the segment at which the block's header is.
    pub at: u32,
    /// Stored bytes behind the header.
    pub stored_len: u32,
    /// Unpacked bytes.
    pub len: u32,
    /// The unpacked byte at which what is meant begins.
    pub within: u32,
    /// How the bytes are packed.
    pub codec: Codec,
    /// Digest in the block's header.
    pub digest: Digest,
}

impl Stored {
    /// Length of an encoded one.
    pub const ENCODED: usize = 41;

    /// Segment 8, at 4, stored length 4, length 4, within 4, codec 1, digest 16; little-endian.
    pub fn encode(&self) -> [u8; Stored::ENCODED] {
        let mut bytes = [0; Stored::ENCODED];
        bytes[..8].copy_from_slice(&self.segment.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.at.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.stored_len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.within.to_le_bytes());
        bytes[24] = self.codec as u8;
        bytes[25..].copy_from_slice(&self.digest);
        bytes
    }

    /// The inverse of [`Stored::encode`]; `None` for bytes that it never writes.
    pub fn decode(bytes: &[u8]) -> Option<Stored> {
        let bytes: &[u8; Stored::ENCODED] = bytes.try_into().ok()?;
        let number = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let stored = Stored {
            segment: u64::from(number(0)) | u64::from(number(4)) << 32,
            at: number(8),
            stored_len: number(12),
            len: number(16),
            within: number(20),
            codec: Codec::from_number(bytes[24])?,
            digest: bytes[25..].try_into().ok()?,
        };
        stored.is_sane().then_some(stored)
    }

    /// What a cut of `bytes` in front leaves of it; `None` where that is nothing.
    pub fn from(&self, bytes: u32) -> Option<Stored> {
        let within = self.within.checked_add(bytes)?;
        (within < self.len).then_some(Stored { within, ..*self })
    }

    /// The bytes of the segment that header and block take: what the counts of live bytes add up.
    pub fn span(&self) -> Range<u64> {
        let at = u64::from(self.at);
        at..at + super::layout::HEADER as u64 + u64::from(self.stored_len)
    }

    fn is_sane(&self) -> bool {
        self.at as usize >= HEAD
            && self.stored_len as usize <= STORED_MAX
            && self.len as usize <= BLOCK_MAX
            && self.within < self.len
    }
}

/// Pages of a file and where they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Pages of 4,096 bytes.
    pub pages: Range<u64>,
    /// Their block.
    pub stored: Stored,
}
