//! A name as lookups use it: its bytes, its hash and its last word, all found in one pass.
//!
//! A name is seen as words of eight bytes in the order of memory. The last one has what is left, at
//! least one byte less than eight, and zeros behind it. Names have no NUL, so no two have the same
//! words. The pass over a path looks for the slash in each word that it hashes; a comparison with
//! an entry compares the same words.

use crate::errno::{Errno, Result};
use crate::name::{NAME_MAX, NameHash};
use ahash::RandomState;

/// Checks a single component: 1 to 255 bytes, no `/`, no NUL, not `.` or `..`.
// Always inlined: its callers have the last word of the name, and most names have no other.
#[inline(always)]
pub(crate) fn check_name(at: &Hashed<'_>) -> Result<()> {
    match at.name {
        [] => Err(Errno::ENOENT),
        name if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
        b"." | b".." => Err(Errno::EEXIST),
        _ if at.has_separator() => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<u64>();

/// A 1 in each byte.
const EACH: u64 = u64::from_ne_bytes([1; WORD]);

/// A name with its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashed<'n> {
    pub name: &'n [u8],
    /// What is left of the name behind its words of eight bytes, as a word.
    pub tail: u64,
    pub hash: NameHash,
}

impl Hashed<'_> {
    /// Whether a byte of the name is a slash or NUL.
    #[inline(always)]
    pub fn has_separator(&self) -> bool {
        let (full, rest) = self.name.as_chunks::<WORD>();
        for word in full {
            if is_separated(u64::from_le_bytes(*word)) {
                return true;
            }
        }
        // What is behind the name is no NUL.
        is_separated(self.tail | u64::MAX << (8 * rest.len()))
    }
}

/// Whether a byte of `word` is a slash or NUL.
#[inline(always)]
fn is_separated(word: u64) -> bool {
    first_zero(word) | first_slash(word) != 0
}

/// The keys of a name hash: whoever does not know them cannot choose names that collide.
#[derive(Debug)]
pub(crate) struct NameKeys {
    seed: u64,
    factor: u64,
    last_factor: u64,
}

impl NameKeys {
    /// Keys drawn from `random`.
    pub fn from(random: &RandomState) -> NameKeys {
        NameKeys {
            seed: random.hash_one(1),
            // Odd: a multiplication by it loses nothing.
            factor: random.hash_one(2) | 1,
            last_factor: random.hash_one(3) | 1,
        }
    }

    /// The name with its hash.
    // Always inlined, as what it calls: it is a third longer with a call and its result in memory.
    #[inline(always)]
    pub fn hashed<'n>(&self, name: &'n [u8]) -> Hashed<'n> {
        self.scan::<false>(name, name.len())
    }

    /// The bytes up to the first slash among the last `left` of `path`, or all `left` without one.
    // Always inlined: see `hashed`.
    #[inline(always)]
    pub fn first_of<'p>(&self, path: &'p [u8], left: usize) -> Hashed<'p> {
        self.scan::<true>(path, left)
    }

    #[inline(always)]
    fn scan<'p, const TO_SLASH: bool>(&self, path: &'p [u8], left: usize) -> Hashed<'p> {
        let all = &path[path.len() - left..];
        let (mut rest, mut mixed) = (all, self.seed);
        let (name, tail) = loop {
            let next = rest.split_first_chunk::<WORD>();
            let word = match next {
                Some((eight, _)) => u64::from_le_bytes(*eight),
                None => last_word(path, rest),
            };
            let slash = first_slash(word);
            if TO_SLASH && slash != 0 {
                let length = all.len() - rest.len() + slash.trailing_zeros() as usize / 8;
                break (&all[..length], word & below(slash));
            }
            match next {
                Some((_, after)) => rest = after,
                None => break (all, word),
            }
            mixed = fold(mixed ^ word, self.factor);
        };
        let mixed = fold(mixed ^ tail, self.factor);
        let hash = NameHash::of_bits(fold(mixed, self.last_factor));
        Hashed { name, tail, hash }
    }
}

/// Both halves of the product of two words, in one word.
#[inline(always)]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// The bytes of `rest`, less than eight at the end of `path`, as a word.
#[inline(always)]
fn last_word(path: &[u8], rest: &[u8]) -> u64 {
    match path.last_chunk::<WORD>() {
        // The bytes before `rest` are shifted out. In two steps, since there may be eight of them.
        Some(last) => (u64::from_le_bytes(*last) >> 1) >> (63 - 8 * rest.len()),
        None => short_word(rest),
    }
}

/// Less than eight bytes as a word. Bytes that are taken twice are taken to the same place.
#[inline(always)]
fn short_word(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (low, high) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(low) | u64::from(high) << (8 * (length - 4));
    }
    let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
    match length {
        0 => 0,
        _ => byte(0) | byte(length / 2) | byte(length - 1),
    }
}

/// The upper bit of the lowest byte of `word` that is a slash, with any above it; 0 without one.
#[inline(always)]
fn first_slash(word: u64) -> u64 {
    first_zero(word ^ (EACH * b'/' as u64))
}

/// The upper bit of the lowest byte of `word` that is zero, with any above it; 0 without one.
#[inline(always)]
fn first_zero(word: u64) -> u64 {
    word.wrapping_sub(EACH) & !word & (EACH * 0x80)
}

/// The bits of the bytes below that of the lowest bit of `slash`, which is the upper one of a byte.
#[inline(always)]
fn below(slash: u64) -> u64 {
    (slash ^ (slash - 1)) >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> NameKeys {
        NameKeys::from(&RandomState::with_seeds(1, 2, 3, 4))
    }

    fn check(path: &[u8], left: usize, length: usize) {
        let found = keys().first_of(path, left);
        let from = path.len() - left;
        assert_eq!(found.name, &path[from..from + length], "{path:?}, {left}");
        let alone = found.name.to_vec();
        let same = keys().hashed(&alone);
        assert_eq!((found.tail, found.hash), (same.tail, same.hash), "{path:?}");
        let tail = &alone[length / WORD * WORD..];
        let bytes = found.tail.to_le_bytes();
        assert_eq!(&bytes[..tail.len()], tail, "{path:?}");
        assert_eq!(bytes[tail.len()..], [0; WORD][tail.len()..], "{path:?}");
    }

    #[test]
    fn a_name_ends_at_the_first_slash_whatever_bytes_it_has() {
        // Neighbours of the slash, and bytes that borrow from the next one.
        for byte in [b'a', b'.', b'0', 0, 1, 0x80, 0xaf, 0xff, b'/' + 1, b'/' - 1] {
            for length in 0..40 {
                let mut path = vec![byte; length];
                check(&path, length, length);
                for slash in 0..length {
                    path[slash..].fill(byte);
                    path[slash] = b'/';
                    check(&path, length, slash);
                    path[length - 1] = b'/';
                    check(&path, length, slash);
                    // What lies before is not looked at.
                    for before in 0..10 {
                        let path = [&vec![b'/'; before][..], &path].concat();
                        check(&path, length, slash);
                    }
                    path[slash..].fill(byte);
                }
            }
        }
    }

    #[test]
    fn a_name_has_no_slash_and_no_nul_wherever_they_are() {
        // Neighbours of both, and bytes that borrow from the next one.
        for byte in [b'a', 1, 0x80, 0xff, b'/' + 1, b'/' - 1, b'/' | 0x80] {
            for length in 3..30 {
                let mut name = vec![byte; length];
                assert_eq!(check_name(&keys().hashed(&name)), Ok(()), "{byte:#x}");
                for at in 0..length {
                    for separator in [0, b'/'] {
                        name[at] = separator;
                        assert_eq!(
                            check_name(&keys().hashed(&name)),
                            Err(Errno::EINVAL),
                            "{byte:#x}"
                        );
                    }
                    name[at] = byte;
                }
            }
        }
    }

    #[test]
    fn names_that_differ_in_one_byte_or_in_length_have_different_hashes() {
        let text: Vec<u8> = (0..60).map(|n| b'a' + n % 23).collect();
        for length in 1..text.len() {
            let name = &text[..length];
            let hash = keys().hashed(name).hash;
            assert_ne!(hash, keys().hashed(&text[..=length]).hash, "{length}");
            for at in 0..length {
                let mut other = name.to_vec();
                other[at] ^= 1;
                assert_ne!(hash, keys().hashed(&other).hash, "{length}: byte {at}");
            }
        }
    }

    #[test]
    fn names_with_a_running_number_are_spread_over_buckets_and_tags() {
        for seed in 0..20 {
            let keys = NameKeys::from(&RandomState::with_seeds(seed, 2, 3, 4));
            let names: Vec<String> = (0..4096).map(|n| format!("file-{n}")).collect();
            let hashes = || names.iter().map(|name| keys.hashed(name.as_bytes()).hash);
            let mut filled = [0; 1024];
            hashes().for_each(|hash| filled[hash.bucket(10)] += 1);
            let most = filled.iter().max().copied().unwrap_or(0);
            let empty = filled.iter().filter(|&&names| names == 0).count();
            // Of 4 names in the mean: 18 buckets without one, and 13 in the fullest.
            assert!(most < 20 && empty < 60, "{seed}: {most}, {empty}");
            let mut tags: Vec<u16> = hashes().map(NameHash::tag).collect();
            tags.sort_unstable();
            tags.dedup();
            assert!(tags.len() > 3_900, "{seed}: {}", tags.len());
        }
    }
}
