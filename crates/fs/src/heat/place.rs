//! Where a record lies: its shard, and the group of the shard with which it is kept.
//!
//! The ranges of one stripe of a file lie in one group. Large files are striped, so that each shard
//! can bound its share of the memory by itself. Keys of kept groups follow from this hash: with
//! another one the version of kept heat rises.

use super::record::{FileId, WHOLE};

/// Number of shards.
pub(super) const SHARDS: usize = 16;
/// Groups of a shard, and of the tenants.
pub(super) const GROUPS: u32 = 64;
/// Ranges of a stripe, as a shift.
pub(super) const STRIPE_SHIFT: u32 = 6;

/// The shard of a range, or of the record of a file, which is that of its first ranges.
pub(super) fn shard_of(file: FileId, range: u64) -> usize {
    (mixed(file, range) >> 60) as usize
}

/// The group within the shard.
pub(super) fn group_of(file: FileId, range: u64) -> u32 {
    (mixed(file, range) >> 54) as u32 % GROUPS
}

/// The group of a tenant, by a number that tells it from others.
pub(super) fn group_of_number(number: u64) -> u32 {
    (number.wrapping_mul(FILES) >> 58) as u32 % GROUPS
}

fn mixed((ino, _): FileId, range: u64) -> u64 {
    let stripe = match range {
        WHOLE => 0,
        range => range >> STRIPE_SHIFT,
    };
    ino.wrapping_mul(FILES)
        .wrapping_add(stripe.wrapping_mul(STRIPES))
}

const FILES: u64 = 0x9E37_79B9_7F4A_7C15;
const STRIPES: u64 = 0xD1B5_4A32_D192_ED03;
