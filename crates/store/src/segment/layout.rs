//! The bytes of a segment: `docs/design/format.md`, "Segment".

use crate::codec::{Codec, OVERHEAD};

/// Length of a segment's head and of its trailer.
pub const HEAD: usize = 64;
/// Length of the header of a block.
pub const HEADER: usize = 64;
/// Unpacked bytes of a block at most.
pub const BLOCK_MAX: usize = 64 << 10;
/// Stored bytes of a block at most: packing never makes one longer.
pub const STORED_MAX: usize = BLOCK_MAX + OVERHEAD;
/// Bytes of a page.
pub const PAGE: usize = 4096;

const SEGMENT_MAGIC: &[u8; 8] = b"HEARTHS1";
const BLOCK_MAGIC: &[u8; 4] = b"HBL1";
/// The part of a block's header that its digest covers.
const COVERED: usize = 48;

/// First half of a BLAKE3.
pub type Digest = [u8; 16];

/// Which segment: what digests and the cipher bind blocks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentId {
    /// Id of the volume.
    pub volume: [u8; 16],
    /// Number of the segment.
    pub segment: u64,
}

/// The bytes that a segment begins with.
pub fn head(place: SegmentId, epoch: u64) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    bytes[..8].copy_from_slice(SEGMENT_MAGIC);
    bytes[8..24].copy_from_slice(&place.volume);
    bytes[24..32].copy_from_slice(&place.segment.to_le_bytes());
    bytes[32..40].copy_from_slice(&epoch.to_le_bytes());
    bytes
}

/// What is wrong with the beginning of a segment, if anything is.
pub fn head_fault(bytes: &[u8], place: SegmentId) -> Option<&'static str> {
    if bytes.len() < HEAD {
        return Some("the segment ends inside its head");
    }
    let own = head(place, 0);
    if bytes[..HEAD].iter().all(|byte| *byte == 0) {
        Some("the segment is all zeros")
    } else if bytes[..8] != own[..8] {
        Some("this is no segment")
    } else if bytes[8..24] != own[8..24] {
        Some("the segment belongs to another volume")
    } else if bytes[24..32] != own[24..32] {
        Some("the segment has another number than its name")
    } else if bytes[40..HEAD] != own[40..] {
        Some("the head of the segment is damaged")
    } else {
        None
    }
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// How the plain bytes are packed.
    pub codec: Codec,
    /// Whether the packed bytes are encrypted.
    pub sealed: bool,
    /// Length of the stored bytes that follow.
    pub stored_len: u32,
    /// Length of the plain bytes.
    pub len: u32,
    /// Inode that the block was written for.
    pub ino: u64,
    /// Its generation.
    pub generation: u32,
    /// Byte of the file at which the block began when it was written.
    pub offset: u64,
    /// Epoch in which it was written; a block that the collector moves keeps it.
    pub epoch: u64,
    /// Digest of the stored bytes, of the place and of the fields above.
    pub digest: Digest,
}

impl BlockHeader {
    /// The header as it is stored.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(BLOCK_MAGIC);
        bytes[4] = self.codec as u8;
        bytes[5] = u8::from(self.sealed);
        bytes[8..12].copy_from_slice(&self.stored_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.ino.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.generation.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.offset.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[COVERED..].copy_from_slice(&self.digest);
        bytes
    }

    /// The header in these bytes; `None` where they are none.
    pub fn decode(bytes: &[u8]) -> Option<BlockHeader> {
        let bytes: &[u8; HEADER] = bytes.get(..HEADER)?.try_into().ok()?;
        let header = BlockHeader {
            codec: Codec::from_number(bytes[4])?,
            sealed: bytes[5] != 0,
            stored_len: number32(bytes, 8),
            len: number32(bytes, 12),
            ino: number64(bytes, 16),
            generation: number32(bytes, 24),
            offset: number64(bytes, 32),
            epoch: number64(bytes, 40),
            digest: bytes[COVERED..].try_into().ok()?,
        };
        let sane = header.len as usize <= BLOCK_MAX && header.stored_len as usize <= STORED_MAX;
        // Encoding it again finds a wrong magic and whatever stands where zeros belong.
        (sane && header.encode() == *bytes).then_some(header)
    }

    /// What the digest has to be for these stored bytes.
    pub fn digest_of(&self, place: SegmentId, stored: &[u8]) -> Digest {
        let mut hasher = blake3::Hasher::new();
        // The bytes come first: behind 72 others BLAKE3 is half as fast on them.
        hasher.update(stored);
        hasher.update(&place.volume);
        hasher.update(&place.segment.to_le_bytes());
        hasher.update(&self.encode()[..COVERED]);
        let mut digest = [0; 16];
        digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        digest
    }

    /// Associated data of the cipher: the block cannot be moved to another place.
    pub fn associated(&self, place: SegmentId) -> [u8; 44] {
        let mut bytes = [0; 44];
        bytes[..16].copy_from_slice(&place.volume);
        bytes[16..24].copy_from_slice(&place.segment.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.ino.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.generation.to_le_bytes());
        bytes[36..44].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }
}

/// What the trailer says of a segment: gathered while it is written, and while it is checked.
#[derive(Debug)]
pub struct Summary {
    blocks: u64,
    headers: Box<blake3::Hasher>,
}

impl Summary {
    /// Of a segment with this head and no block.
    pub fn new(head: &[u8; HEAD]) -> Summary {
        let mut headers = Box::new(blake3::Hasher::new());
        headers.update(head);
        Summary { blocks: 0, headers }
    }

    /// Adds the header of the next block.
    pub fn add(&mut self, header: &[u8]) {
        self.blocks += 1;
        self.headers.update(header);
    }

    /// The trailer of the segment.
    pub fn trailer(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[8..40].copy_from_slice(self.headers.finalize().as_bytes());
        bytes[40..48].copy_from_slice(SEGMENT_MAGIC);
        bytes
    }
}

/// How many blocks a trailer says there are; `None` where it is no trailer.
pub fn blocks_of_trailer(bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; HEAD] = bytes.try_into().ok()?;
    let end = bytes[48..].iter().all(|byte| *byte == 0);
    (bytes[40..48] == SEGMENT_MAGIC[..] && end).then(|| number64(bytes, 0))
}

fn number32(bytes: &[u8; 64], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn number64(bytes: &[u8; 64], at: usize) -> u64 {
    u64::from(number32(bytes, at)) | u64::from(number32(bytes, at + 4)) << 32
}
