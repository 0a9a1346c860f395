//! The value of an extent.

use super::bytes::Fields;
use super::key;
use crate::error::Result;
use std::ops::Range;

/// Where a stored block is. Digest and codec are checked by who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Segment.
    pub segment: u64,
    /// First byte in the segment.
    pub at: u32,
    /// Bytes there.
    pub stored: u32,
    /// Bytes when it is unpacked.
    pub length: u32,
    /// How it is packed.
    pub codec: u8,
    /// The first half of its digest.
    pub digest: [u8; 16],
}

/// Where the bytes of an extent are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: allocated, and zeros.
    Unwritten,
    /// Under the key of inline data with the same map and last page.
    Inline,
    /// In a block of a segment, from page `within` of the unpacked block on.
    Stored {
        /// Block.
        block: Block,
        /// Its first page that belongs to the extent.
        within: u32,
    },
}

/// Pages of the largest file, which has 2^63-1 bytes.
pub const PAGES_MAX: u64 = (i64::MAX as u64).div_ceil(4096);

/// An extent. Extents of a map do not overlap; what none covers is a hole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Pages of 4,096 bytes; not empty.
    pub pages: Range<u64>,
    /// Their bytes.
    pub place: Place,
}

impl Block {
    /// The size of the encoding.
    pub const SIZE: usize = 37;

    /// Appends the block.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.segment.to_le_bytes());
        for number in [self.at, self.stored, self.length] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(self.codec);
        out.extend_from_slice(&self.digest);
    }

    /// The block that `bytes` say: what a record calls a stored place.
    pub fn decode(bytes: &[u8]) -> Result<Block> {
        let mut fields = Fields::new(b"", bytes);
        let block = Block::read(&mut fields)?;
        fields.end()?;
        Ok(block)
    }

    fn read(fields: &mut Fields<'_>) -> Result<Block> {
        Ok(Block {
            segment: fields.u64()?,
            at: fields.u32()?,
            stored: fields.u32()?,
            length: fields.u32()?,
            codec: fields.u8()?,
            digest: fields.array()?,
        })
    }
}

impl Extent {
    /// The value.
    pub fn encode(&self) -> Box<[u8]> {
        let mut out = Vec::with_capacity(13 + Block::SIZE);
        out.extend_from_slice(&(self.pages.end - self.pages.start).to_le_bytes());
        match &self.place {
            Place::Unwritten => out.push(0),
            Place::Inline => out.push(1),
            Place::Stored { block, within } => {
                out.push(2);
                out.extend_from_slice(&within.to_le_bytes());
                block.encode(&mut out);
            }
        }
        out.into()
    }

    /// The extent under `key`.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Extent> {
        let (_, last) = key::page(key)?;
        let mut fields = Fields::new(key, value);
        let count = fields.u64()?;
        let place = match fields.u8()? {
            0 => Place::Unwritten,
            1 => Place::Inline,
            2 => {
                let within = fields.u32()?;
                let block = Block::read(&mut fields)?;
                Place::Stored { block, within }
            }
            _ => return Err(fields.wrong("place of an extent")),
        };
        fields.end()?;
        let end = last.checked_add(1);
        match end.and_then(|end| Some(end.checked_sub(count)?..end)) {
            Some(pages) if count > 0 => Ok(Extent { pages, place }),
            _ => Err(fields.wrong("length of an extent")),
        }
    }
}

/// Inline bytes of an extent, and the file that they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline<'a> {
    /// Inode.
    pub ino: u64,
    /// Its generation.
    pub generation: u32,
    /// First page of the extent. Who has read the extent a moment before sees by it that it has
    /// become another one.
    pub first: u64,
    /// Bytes; the extent's pages are zeros behind them.
    pub bytes: &'a [u8],
}

impl Inline<'_> {
    /// The value: zeros at the end take no room.
    pub fn encode(&self) -> Box<[u8]> {
        let end = self.bytes.iter().rposition(|byte| *byte != 0);
        let bytes = &self.bytes[..end.map_or(0, |last| last + 1)];
        let mut out = Vec::with_capacity(20 + bytes.len());
        out.extend_from_slice(&self.ino.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(bytes);
        out.into()
    }

    /// The inline bytes under `key`.
    pub fn decode<'a>(key: &'a [u8], value: &'a [u8]) -> Result<Inline<'a>> {
        let mut fields = Fields::new(key, value);
        Ok(Inline {
            ino: fields.u64()?,
            generation: fields.u32()?,
            first: fields.u64()?,
            bytes: fields.rest(),
        })
    }
}

/// What `bytes` hold of `count` pages from page `within` on.
pub fn part(bytes: &[u8], within: u32, count: u64) -> &[u8] {
    let at = |page: u64| (bytes.len() as u64).min(page.saturating_mul(4096)) as usize;
    let from = u64::from(within);
    &bytes[at(from)..at(from.saturating_add(count))]
}
