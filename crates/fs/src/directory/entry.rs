//! One directory entry: immutable once published; a change publishes another entry.

use crate::attr::{Kind, Target};

/// A directory entry: from name to inode number. Inode number 0 makes the entry negative: the
/// backend has said that the name is absent.
///
/// Sixty-four bytes on a line of its own, so that no writer of a neighbour disturbs a reader.
#[repr(align(64))]
pub(crate) struct Entry {
    /// Position in the listing order, unique within the directory. It agrees with the hash of the
    /// name in all but the low [`crate::name::NameHash::PROBE_BITS`] bits.
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

    pub fn name(&self) -> &[u8] {
        match &self.name {
            Name::Short { len, bytes } => &bytes[..usize::from(*len)],
            Name::Long(bytes) => bytes,
        }
    }
}
