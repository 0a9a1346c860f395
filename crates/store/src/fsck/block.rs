//! Records of blocks, which sort in the order in which blocks lie on the disk.

use super::sorted::number;
use crate::schema::Block;

/// Bytes of a block and its inode.
pub const BLOCK: usize = 45;

/// The record of a block.
pub fn block_record(block: &Block, ino: u64) -> [u8; BLOCK] {
    let mut record = [0; BLOCK];
    record[..8].copy_from_slice(&block.segment.to_be_bytes());
    record[8..12].copy_from_slice(&block.at.to_be_bytes());
    record[12..16].copy_from_slice(&block.stored.to_be_bytes());
    record[16..20].copy_from_slice(&block.length.to_be_bytes());
    record[20] = block.codec;
    record[21..37].copy_from_slice(&block.digest);
    record[37..].copy_from_slice(&ino.to_be_bytes());
    record
}

/// Block and inode of a record.
pub fn block_of(record: &[u8; BLOCK]) -> (Block, u64) {
    let four = |at: usize| {
        let bytes = record[at..].first_chunk::<4>();
        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
    };
    let mut digest = [0; 16];
    digest.copy_from_slice(&record[21..37]);
    let ino = record[37..].first_chunk::<8>();
    let block = Block {
        segment: number(record, 0),
        at: four(8),
        stored: four(12),
        length: four(16),
        codec: record[20],
        digest,
    };
    (block, ino.map_or(0, |bytes| u64::from_be_bytes(*bytes)))
}
