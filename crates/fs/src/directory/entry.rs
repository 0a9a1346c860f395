//! One directory entry: immutable once published, but for a mark of its end; a change publishes
//! another entry.

use crate::attr::{DirEntry, Kind, Target};
use crate::hashed::{Hashed, WORD};
use crate::name::NameHash;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};

/// A directory entry: from name to inode number. Inode number 0 makes the entry negative: the
/// backend has said that the name is absent.
///
/// Sixty-four bytes on a line of its own, so that no writer of a neighbour disturbs a reader.
#[repr(align(64))]
pub(crate) struct Entry {
    /// Position in the listing order, unique within the directory. It agrees with
    /// [`crate::name::NameHash::cookie`] of the name in all but the low `PROBE_BITS` bits.
    cookie: u32,
    generation: u32,
    ino: u64,
    /// With the kind: there is room beside the length.
    name: Name,
}

// With a representation that is laid down: kind and mark lie at one place in both.
#[repr(u8)]
enum Name {
    /// Zeros follow the name: it is compared word by word.
    Short {
        kind: Kind,
        gone: AtomicBool,
        len: u8,
        bytes: [u8; WORDS * WORD],
    },
    Long {
        kind: Kind,
        gone: AtomicBool,
        bytes: Box<[u8]>,
    },
}

const WORDS: usize = 5;
/// Bytes of the longest name that an entry has in itself: there is always a word that ends it.
const SHORT: usize = WORDS * WORD - 1;
const _: () = assert!(NameHash::COOKIE_BITS <= u32::BITS);
#[cfg(not(feature = "shuttle"))]
const _: () = assert!(size_of::<Entry>() == 64);

impl Entry {
    // Always inlined, and the parts are written one by one: the entry is then made where it stays,
    // not on the stack.
    #[inline(always)]
    pub fn new(at: &Hashed<'_>, cookie: u64, to: Target) -> Box<Entry> {
        let mut entry = Box::new(Entry::nothing());
        entry.cookie = cookie as u32;
        entry.generation = to.generation;
        entry.ino = to.ino;
        entry.name.set(at, to.kind);
        entry
    }

    /// An entry of no name, which is in no table.
    pub const fn nothing() -> Entry {
        Entry {
            cookie: 0,
            ino: 0,
            generation: 0,
            name: Name::Short {
                len: 0,
                kind: Kind::File,
                gone: AtomicBool::new(false),
                bytes: [0; WORDS * WORD],
            },
        }
    }

    /// A negative entry. `epoch`: that in which the name was removed; 0 if the backend said that it
    /// does not exist.
    pub fn negative(at: &Hashed<'_>, cookie: u64, epoch: u32) -> Box<Entry> {
        Entry::new(
            at,
            cookie,
            Target {
                ino: 0,
                generation: epoch,
                kind: Kind::File,
            },
        )
    }

    pub fn cookie(&self) -> u64 {
        u64::from(self.cookie)
    }

    pub fn ino(&self) -> u64 {
        self.ino
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
        match self.name {
            Name::Short { kind, .. } | Name::Long { kind, .. } => kind,
        }
    }

    /// It, as a listing shows it.
    // Always inlined, and it looks once how long the name is: each entry of a listing comes here.
    #[inline(always)]
    pub fn listed(&self) -> DirEntry<'_> {
        let (kind, name) = match &self.name {
            Name::Short {
                len, kind, bytes, ..
            } => (*kind, &bytes[..usize::from(*len)]),
            Name::Long { kind, bytes, .. } => (*kind, &bytes[..]),
        };
        DirEntry {
            ino: self.ino(),
            kind,
            name,
            cookie: self.cookie(),
        }
    }

    /// Notes that it is about to leave its slot. The caller holds the bucket, in a write section.
    #[inline(always)]
    pub fn set_gone(&self) {
        // No walk passes through others: what reads them shares no line that is written.
        if matches!(self.kind(), Kind::Directory | Kind::Symlink) {
            // Relaxed: the bucket is released behind this.
            self.gone().store(true, Ordering::Relaxed);
        }
    }

    /// Whether it, the name of a directory or a link, has left its slot. If it has not, it was
    /// there all the time since it was found: all that was looked up meanwhile is of one moment
    /// with it.
    pub fn is_gone(&self) -> bool {
        // Relaxed: who has seen what was changed after this entry left has it from a thread that
        // has locked the bucket, and what is looked up is loaded with Acquire.
        self.gone().load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn gone(&self) -> &AtomicBool {
        match &self.name {
            Name::Short { gone, .. } | Name::Long { gone, .. } => gone,
        }
    }

    /// Whether an entry of this name has it in itself.
    #[inline(always)]
    pub fn is_short(at: &Hashed<'_>) -> bool {
        at.name.len() <= SHORT
    }

    /// Whether `at` is its name.
    #[inline(always)]
    pub fn is_named(&self, at: &Hashed<'_>) -> bool {
        match &self.name {
            Name::Short { .. } => self.has_short_name(at),
            Name::Long { bytes, .. } => is_long(bytes, at.name),
        }
    }

    /// Whether `at`, a [short](Entry::is_short) name, is its name. Compared here and not by a call:
    /// every step of every walk does it, mostly for a few bytes.
    #[inline(always)]
    pub fn has_short_name(&self, at: &Hashed<'_>) -> bool {
        match &self.name {
            Name::Short { len, bytes, .. } => {
                usize::from(*len) == at.name.len() && has_words(bytes, at)
            }
            Name::Long { .. } => false,
        }
    }

    pub fn name(&self) -> &[u8] {
        match &self.name {
            Name::Short { len, bytes, .. } => &bytes[..usize::from(*len)],
            Name::Long { bytes, .. } => bytes,
        }
    }
}

impl Name {
    /// Makes it that of `at`; it is empty before.
    #[inline(always)]
    fn set(&mut self, at: &Hashed<'_>, of: Kind) {
        let Name::Short {
            len, kind, bytes, ..
        } = self
        else {
            return;
        };
        let (words, _) = bytes.as_chunks_mut::<WORD>();
        let (full, _) = at.name.as_chunks::<WORD>();
        if at.name.len() > SHORT {
            *self = Name::long(at.name, of);
            return;
        }
        *kind = of;
        *len = at.name.len() as u8;
        // Word by word: a copy of so few bytes is mostly its call.
        for (word, given) in words.iter_mut().zip(full) {
            *word = *given;
        }
        if let Some(last) = words.get_mut(full.len()) {
            *last = at.tail.to_le_bytes();
        }
    }

    #[cold]
    #[inline(never)]
    fn long(name: &[u8], kind: Kind) -> Name {
        let bytes = name.into();
        Name::Long {
            kind,
            gone: AtomicBool::new(false),
            bytes,
        }
    }
}

/// Whether the words of a short name of this length are those of `at`.
#[inline(always)]
fn has_words(bytes: &[u8; WORDS * WORD], at: &Hashed<'_>) -> bool {
    let (words, _) = bytes.as_chunks::<WORD>();
    let (full, _) = at.name.as_chunks::<WORD>();
    for (word, given) in words.iter().zip(full) {
        if word != given {
            return false;
        }
    }
    let last = words.get(full.len());
    last.is_some_and(|last| u64::from_le_bytes(*last) == at.tail)
}

#[cold]
#[inline(never)]
fn is_long(bytes: &[u8], name: &[u8]) -> bool {
    *bytes == *name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashed::NameKeys;
    use ahash::RandomState;

    #[test]
    fn an_entry_knows_its_name_from_names_that_differ_in_one_byte_or_in_length() {
        let to = Target {
            ino: 7,
            generation: 1,
            kind: Kind::File,
        };
        let keys = NameKeys::from(&RandomState::with_seeds(1, 2, 3, 4));
        let text: Vec<u8> = (0..=SHORT as u8 + 20).map(|n| b'a' + n % 23).collect();
        for length in 1..text.len() {
            let name = &text[..length];
            let entry = Entry::new(&keys.hashed(name), 0, to);
            assert!(entry.is_named(&keys.hashed(name)), "{length}");
            assert_eq!(entry.name(), name);
            assert!(!entry.is_named(&keys.hashed(&text[..length - 1])));
            assert!(!entry.is_named(&keys.hashed(&text[..=length])));
            for at in 0..length {
                let mut other = name.to_vec();
                other[at] ^= 0x80;
                assert!(!entry.is_named(&keys.hashed(&other)), "{length}: byte {at}");
            }
        }
    }
}
