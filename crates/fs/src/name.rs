//! Hashes of the names of directory entries.

/// Longest name in bytes.
pub const NAME_MAX: usize = 255;

/// Keyed hash of a name: 62 bits, never 0. The upper bits choose the bucket and order a listing, so
/// that a table may grow during a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameHash(u64);

impl NameHash {
    /// Bits of a hash.
    pub const BITS: u32 = 62;

    /// The hash of a name with these bits.
    #[inline(always)]
    pub fn of_bits(bits: u64) -> NameHash {
        NameHash((bits >> (64 - Self::BITS)).max(1 << Self::GROUP_SHIFT))
    }

    /// The hash with this value.
    #[cfg(test)]
    pub fn from_value(value: u64) -> NameHash {
        NameHash(value)
    }

    /// Bits of a cookie, the upper ones of the hash: as many as a program has for a file offset
    /// whose `off_t` has 32 bits.
    pub const COOKIE_BITS: u32 = 31;

    /// Low bits of a cookie, in which entries with one hash may differ. The names of a directory
    /// whose hashes agree above them are a *group*; a billion names make groups of 119.
    pub const PROBE_BITS: u32 = 8;

    /// Upper bits that all hashes and cookies of a group share. A table has no more buckets than
    /// there are groups: the cookie must decide the bucket.
    pub const GROUP_BITS: u32 = Self::COOKIE_BITS - Self::PROBE_BITS;

    const GROUP_SHIFT: u32 = Self::BITS - Self::GROUP_BITS;

    /// The cookie of the entry, unless another entry of its group has it.
    pub fn cookie(self) -> u64 {
        self.0 >> (Self::BITS - Self::COOKIE_BITS)
    }

    /// The least hash of an entry with this cookie or a larger one.
    pub fn position_of(cookie: u64) -> u64 {
        cookie << (Self::BITS - Self::COOKIE_BITS)
    }

    pub fn value(self) -> u64 {
        self.0
    }

    /// Index of the bucket in a table of `1 << log2` buckets.
    pub fn bucket(self, log2: u32) -> usize {
        bucket_of(self.0, log2)
    }

    /// The bits that are kept beside the pointer to an entry. A lookup so does not follow the
    /// pointers to all other entries of a bucket, and the search for a free cookie only those to
    /// entries that may be of its group ([`may_share_group`]).
    ///
    /// They choose the bucket in large tables, so that moving entries there follows no pointer
    /// either ([`split_by_tag`]). The larger the table, the fewer of them distinguish the names of
    /// one bucket: with four million buckets six bits do.
    pub fn tag(self) -> u16 {
        (self.0 >> (Self::BITS - TAGGED_END)) as u16
    }
}

/// A tag chooses the bucket in tables of more than `1 << TAGGED` and up to `1 << TAGGED_END`
/// buckets. The entries of smaller tables are in a cache when they move.
const TAGGED: u32 = 12;
const TAGGED_END: u32 = TAGGED + u16::BITS;

/// Index in a table of `1 << to` buckets of an entry with this `tag` that is in bucket `index` of a
/// smaller table of `1 << from`; `None` if the tag does not decide it.
pub(crate) fn split_by_tag(index: usize, tag: u16, from: u32, to: u32) -> Option<usize> {
    if from < TAGGED || to > TAGGED_END {
        return None;
    }
    let more = to - from;
    let bits = usize::from(tag) >> (TAGGED_END - to);
    Some(index << more | bits & ((1 << more) - 1))
}

/// Whether hashes with these tags, of one bucket, may be of one group: the bits that tags and
/// groups have in common.
pub(crate) fn may_share_group(one: u16, other: u16) -> bool {
    (one ^ other) >> (TAGGED_END - NameHash::GROUP_BITS) == 0
}

/// Index of the bucket of a hash. A hash has no bits above, so it is 0 in a table of one bucket.
pub(crate) fn bucket_of(hash: u64, log2: u32) -> usize {
    (hash >> (NameHash::BITS - log2)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_decides_the_bucket_in_a_larger_table() {
        let noise = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hashes = (1..=1000).map(|n| NameHash::of_bits(noise(n)));
        let mut told = 0;
        for hash in hashes {
            for from in 0..31 {
                for to in from + 1..32 {
                    let split = split_by_tag(hash.bucket(from), hash.tag(), from, to);
                    assert_eq!(split.is_some(), from >= 12 && to <= 28, "{from} to {to}");
                    if let Some(split) = split {
                        assert_eq!(split, hash.bucket(to), "{hash:?}, {from} to {to}");
                        told += 1;
                    }
                }
            }
        }
        assert_eq!(told, 1000 * 136);
    }

    #[test]
    fn names_of_one_bucket_of_a_large_table_have_many_tags() {
        let one = NameHash::from_value(0x2A5A_5A5A_5A5A_5A5A);
        for (log2, most) in [(3, 1 << 16), (12, 1 << 16), (18, 1 << 10), (22, 1 << 6)] {
            let mask = u64::MAX >> (64 - NameHash::BITS + log2);
            let mut tags: Vec<u16> = (0..4096u64)
                .map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15))
                .map(|noise| NameHash::from_value(one.value() ^ noise & mask).tag())
                .collect();
            tags.sort_unstable();
            tags.dedup();
            let few = tags.len() < 4096.min(most) * 15 / 16;
            assert!(!few && tags.len() <= most, "{log2}: {}", tags.len());
        }
    }
}
