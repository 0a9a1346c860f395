//! One directory entry: immutable once published; a change publishes another entry.

use crate::attr::{Kind, Target};

/// A directory entry: from name to inode number. Inode number 0 makes the entry negative: the
/// backend has said that the name is absent.
///
/// Sixty-four bytes on a line of its own, so that no writer of a neighbour disturbs a reader.
#[repr(align(64))]
pub(crate) struct Entry {
    /// Position in the listing order, unique within the directory. It agrees with
    /// [`crate::name::NameHash::cookie`] of the name in all but the low `PROBE_BITS` bits.
    pub cookie: u64,
    /// Number in the low 60 bits, kind in the upper four.
    ino: u64,
    generation: u32,
    name: Name,
}

enum Name {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

const SHORT: usize = 38;
const KIND_SHIFT: u32 = 60;
const _: () = assert!(size_of::<Entry>() == 64);

impl Entry {
    pub fn new(name: &[u8], cookie: u64, to: Target) -> Entry {
        debug_assert!(
            to.ino < 1 << KIND_SHIFT,
            "inode numbers leave four bits for the kind"
        );
        let stored = if name.len() <= SHORT {
            let mut bytes = [0; SHORT];
            bytes[..name.len()].copy_from_slice(name);
            Name::Short {
                len: name.len() as u8,
                bytes,
            }
        } else {
            Name::Long(name.into())
        };
        let ino = to.ino | u64::from(to.kind as u8) << KIND_SHIFT;
        Entry {
            cookie,
            ino,
            generation: to.generation,
            name: stored,
        }
    }

    /// An entry of no name, which is in no table.
    pub const fn nothing() -> Entry {
        Entry {
            cookie: 0,
            ino: 0,
            generation: 0,
            name: Name::Short {
                len: 0,
                bytes: [0; SHORT],
            },
        }
    }

    /// A negative entry. `epoch`: that in which the name was removed; 0 if the backend said that it
    /// does not exist.
    pub fn negative(name: &[u8], cookie: u64, epoch: u32) -> Entry {
        Entry::new(
            name,
            cookie,
            Target {
                ino: 0,
                generation: epoch,
                kind: Kind::File,
            },
        )
    }

    pub fn ino(&self) -> u64 {
        self.ino & ((1 << KIND_SHIFT) - 1)
    }

    pub fn generation(&self) -> u32 {
        self.generation
    }

    pub fn is_negative(&self) -> bool {
        self.ino() == 0
    }

    /// Whether it is a negative entry that the backend can give again once it has every epoch up to
    /// `applied`.
    pub fn is_spare(&self, applied: u32) -> bool {
        self.is_negative() && self.generation <= applied
    }

    pub fn kind(&self) -> Kind {
        Kind::from_dirent((self.ino >> KIND_SHIFT) as u8).unwrap_or(Kind::File)
    }

    /// Whether `name` is its name. Compared here and not by a call: every step of every walk does
    /// it, mostly for a few bytes.
    #[inline(always)]
    pub fn is_named(&self, name: &[u8]) -> bool {
        match &self.name {
            Name::Short { len, bytes } => {
                usize::from(*len) == name.len() && starts_with(bytes, name)
            }
            Name::Long(bytes) => **bytes == *name,
        }
    }

    pub fn name(&self) -> &[u8] {
        match &self.name {
            Name::Short { len, bytes } => &bytes[..usize::from(*len)],
            Name::Long(bytes) => bytes,
        }
    }
}

/// Whether `bytes` begin with `name`, eight bytes at a time. The last eight may overlap those
/// before them.
#[inline(always)]
fn starts_with(bytes: &[u8; SHORT], name: &[u8]) -> bool {
    let Some(mut bytes) = bytes.get(..name.len()) else {
        return false;
    };
    let (Some(end), Some(name_end)) = (bytes.last_chunk::<8>(), name.last_chunk::<8>()) else {
        return short_word(bytes) == short_word(name);
    };
    let mut name = name;
    while let (Some((word, after)), Some((name_word, name_after))) = (
        bytes.split_first_chunk::<8>(),
        name.split_first_chunk::<8>(),
    ) {
        if word != name_word {
            return false;
        }
        (bytes, name) = (after, name_after);
    }
    end == name_end
}

/// A number that tells what is shorter than eight bytes from everything else of its length.
#[inline(always)]
fn short_word(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (low, high) = (u32::from_ne_bytes(*first), u32::from_ne_bytes(*last));
        return u64::from(low) | u64::from(high) << 32;
    }
    let byte = |at: usize| u64::from(bytes[at]);
    match bytes.len() {
        0 => 0,
        length => byte(0) | byte(length / 2) << 8 | byte(length - 1) << 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_knows_its_name_from_names_that_differ_in_one_byte_or_in_length() {
        let to = Target {
            ino: 7,
            generation: 1,
            kind: Kind::File,
        };
        let text: Vec<u8> = (0..=SHORT as u8 + 20).map(|n| b'a' + n % 23).collect();
        for length in 1..text.len() {
            let name = &text[..length];
            let entry = Entry::new(name, 0, to);
            assert!(entry.is_named(name), "{length}");
            assert_eq!(entry.name(), name);
            assert!(!entry.is_named(&text[..length - 1]));
            assert!(!entry.is_named(&text[..=length]));
            for at in 0..length {
                let mut other = name.to_vec();
                other[at] ^= 0x80;
                assert!(!entry.is_named(&other), "{length}: byte {at}");
            }
        }
    }
}
