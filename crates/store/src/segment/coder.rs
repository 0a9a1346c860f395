//! From pages to blocks and back.

use super::layout::{BLOCK_MAX, BlockHeader, HEADER, PAGE, SegmentId};
use super::stored::{Stored, Written};
use crate::codec::{Cipher, Codec, Compression, unpack};
use bytes::Bytes;
use hearth_backend::PageSource;
use std::ops::Range;

/// Pages of a block at most.
const PAGES_MAX: usize = BLOCK_MAX / PAGE;

pub use hearth_backend::Page;

/// The file that pages belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOwner {
    /// Inode.
    pub ino: u64,
    /// Its generation.
    pub generation: u32,
}

/// The segment that a block goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its number.
    pub segment: u64,
    /// The epoch in which it was begun.
    pub epoch: u64,
}

/// Packs, encrypts and signs blocks.
#[derive(Debug)]
pub struct Coder {
    /// Id of the volume.
    pub volume: [u8; 16],
    /// How new blocks are packed.
    pub compression: Compression,
    /// What blocks are encrypted with; `None` in a volume that is not.
    pub cipher: Option<Cipher>,
}

/// Cuts runs of pages into the pages of blocks: adjacent ones, at most 64 KiB.
pub fn cut(runs: Vec<Range<u64>>) -> impl Iterator<Item = Range<u64>> {
    let blocks = |run: Range<u64>| {
        let starts = run.clone().step_by(PAGES_MAX);
        starts.map(move |start| start..run.end.min(start + PAGES_MAX as u64))
    };
    runs.into_iter().flat_map(blocks)
}

impl Coder {
    /// The place of a segment.
    pub fn place(&self, segment: u64) -> SegmentId {
        SegmentId {
            volume: self.volume,
            segment,
        }
    }

    /// Appends header and block of adjacent `pages` to `out`, and says where they are: `at` counts
    /// from the beginning of `out`. `packed` is a buffer for packed bytes.
    pub fn encode(
        &self,
        target: Target,
        owner: BlockOwner,
        (source, pages): (&dyn PageSource, Range<u64>),
        packed: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Written {
        let count = (pages.end - pages.start) as usize;
        let header = BlockHeader {
            codec: Codec::None,
            sealed: self.cipher.is_some(),
            stored_len: 0,
            len: (count * PAGE) as u32,
            ino: owner.ino,
            generation: owner.generation,
            offset: pages.start * PAGE as u64,
            epoch: target.epoch,
            digest: [0; 16],
        };
        let stored = self.append(target.segment, header, out, |out| {
            let begin = out.len();
            source.append_to(pages.clone(), out);
            debug_assert_eq!(out.len() - begin, count * PAGE, "whole pages");
            self.compression.pack_from(out, begin, packed)
        });
        Written { pages, stored }
    }

    /// Appends a block that was packed before, as the collector does; see [`Coder::encode`].
    pub fn encode_packed(
        &self,
        segment: u64,
        of: &BlockHeader,
        packed: &[u8],
        out: &mut Vec<u8>,
    ) -> Stored {
        let header = BlockHeader {
            sealed: self.cipher.is_some(),
            ..*of
        };
        self.append(segment, header, out, |out| {
            out.extend_from_slice(packed);
            of.codec
        })
    }

    /// Appends a block whose packed bytes `pack` appends, and puts its header in front.
    fn append(
        &self,
        segment: u64,
        mut header: BlockHeader,
        out: &mut Vec<u8>,
        pack: impl FnOnce(&mut Vec<u8>) -> Codec,
    ) -> Stored {
        let place = self.place(segment);
        let at = out.len();
        out.resize(at + HEADER, 0);
        let begin = at + HEADER;
        match &self.cipher {
            Some(cipher) => {
                let sealing = Cipher::begin(out);
                header.codec = pack(out);
                cipher.seal_from(&header.associated(place), out, sealing);
            }
            None => header.codec = pack(out),
        }
        header.stored_len = (out.len() - begin) as u32;
        header.digest = header.digest_of(place, &out[begin..]);
        out[at..begin].copy_from_slice(&header.encode());
        Stored {
            segment,
            at: at as u32,
            stored_len: header.stored_len,
            len: header.len,
            within: 0,
            codec: header.codec,
            digest: header.digest,
        }
    }

    /// Header and packed bytes of the block that `stored` means, decrypted: `bytes` are what the
    /// segment has at its place.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn packed(
        &self,
        stored: &Stored,
        bytes: &Bytes,
    ) -> Result<(BlockHeader, Bytes), &'static str> {
        if bytes.len() as u64 != stored.span().end - stored.span().start {
            return Err("the segment ends inside the block");
        }
        let header = BlockHeader::decode(bytes).ok_or("there is no header of a block")?;
        let body = bytes.slice(HEADER..);
        let place = self.place(stored.segment);
        let same = header.digest == stored.digest
            && header.stored_len == stored.stored_len
            && header.len == stored.len
            && header.codec == stored.codec;
        if !same {
            return Err("the header of the block is not the one that was written");
        }
        if header.digest_of(place, &body) != header.digest {
            return Err("the block does not have its digest");
        }
        let packed = match (&self.cipher, header.sealed) {
            (None, false) => body,
            (Some(cipher), true) => cipher
                .open(&header.associated(place), &body)
                .map(Bytes::from)
                .map_err(|_| "the block does not open with the key of this volume")?,
            (None, true) => return Err("the block is encrypted and the volume is not"),
            (Some(_), false) => return Err("the block is not encrypted and the volume is"),
        };
        Ok((header, packed))
    }

    /// The unpacked bytes of that block.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(
        &self,
        stored: &Stored,
        bytes: &Bytes,
    ) -> Result<(BlockHeader, Bytes), &'static str> {
        let (header, packed) = self.packed(stored, bytes)?;
        let plain = match header.codec {
            Codec::None if packed.len() == header.len as usize => packed,
            codec => unpack(codec, &packed, header.len as usize)
                .map(Bytes::from)
                .ok_or("the block does not unpack to its length")?,
        };
        Ok((header, plain))
    }
}
