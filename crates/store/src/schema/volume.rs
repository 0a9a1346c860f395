//! Values of the whole volume: counters, usage, segments.

use super::bytes::Fields;
use super::key;
use crate::error::Result;
use crate::kv::{Read, Table};

/// Counters of the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The last epoch of the volume that was committed; 0 before the first.
    pub epoch: u64,
    /// No inode up to this number is given to a new inode.
    pub last_inode: u64,
    /// The next map of extents.
    pub next_map: u64,
    /// Larger than the number of any segment that was named.
    pub next_segment: u64,
}

impl Counters {
    /// The value.
    pub fn encode(&self) -> Box<[u8]> {
        let numbers = [
            self.epoch,
            self.last_inode,
            self.next_map,
            self.next_segment,
        ];
        numbers.map(u64::to_le_bytes).concat().into()
    }

    /// The counters that `value` says.
    pub fn decode(value: &[u8]) -> Result<Counters> {
        let mut fields = Fields::new(key::COUNTERS, value);
        let counters = Counters {
            epoch: fields.u64()?,
            last_inode: fields.u64()?,
            next_map: fields.u64()?,
            next_segment: fields.u64()?,
        };
        fields.end()?;
        Ok(counters)
    }
}

/// What the inodes of one set of owners take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Blocks of 4,096 bytes.
    pub blocks: u64,
    /// Inodes.
    pub inodes: u64,
}

impl Used {
    /// The value.
    pub fn encode(&self) -> Box<[u8]> {
        encode_two([self.blocks, self.inodes])
    }

    /// The usage under `key`.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Used> {
        let [blocks, inodes] = decode_two(key, value)?;
        Ok(Used { blocks, inodes })
    }
}

/// How much of a segment is in use, in pages before packing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Pages that extents name now.
    pub live: u64,
    /// Pages of all blocks that extents have named ever.
    pub named: u64,
}

impl Segment {
    /// The value.
    pub fn encode(&self) -> Box<[u8]> {
        encode_two([self.live, self.named])
    }

    /// The segment under `key`.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Segment> {
        let [live, named] = decode_two(key, value)?;
        Ok(Segment { live, named })
    }
}

/// The value of [`key::UNWRITTEN`].
pub fn encode_unwritten(pages: u64) -> Box<[u8]> {
    pages.to_le_bytes().into()
}

/// The pages that a value of [`key::UNWRITTEN`] says.
pub fn decode_unwritten(value: &[u8]) -> Result<u64> {
    let mut fields = Fields::new(key::UNWRITTEN, value);
    let pages = fields.u64()?;
    fields.end()?;
    Ok(pages)
}

/// How many pages of all files are allocated and not written.
pub fn unwritten_pages(view: &(impl Read + ?Sized)) -> Result<u64> {
    match view.get(Table::Meta, key::UNWRITTEN)? {
        Some(value) => decode_unwritten(&value),
        None => Ok(0),
    }
}

fn encode_two(numbers: [u64; 2]) -> Box<[u8]> {
    numbers.map(u64::to_le_bytes).concat().into()
}

fn decode_two(key: &[u8], value: &[u8]) -> Result<[u64; 2]> {
    let mut fields = Fields::new(key, value);
    let numbers = [fields.u64()?, fields.u64()?];
    fields.end()?;
    Ok(numbers)
}
