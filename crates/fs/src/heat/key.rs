//! The key of an access: one range of one file.

/// Bits of the range in [`Key::place`]; above them, the low bits of the generation.
const RANGE_BITS: u32 = 43;
/// The bit above those: see [`Key::going_on`].
const GOES_ON: u64 = 1 << 63;

/// One range of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub ino: u64,
    /// Range, the low bits of the generation above it, and [`GOES_ON`].
    pub(super) place: u64,
}

/// How a range was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Key {
    /// The range of a key that says nothing of where a file was used. No file has such a range.
    pub const NO_RANGE: u64 = (1 << RANGE_BITS) - 1;

    pub fn new(ino: u64, generation: u32, range: u64) -> Key {
        Key {
            ino,
            place: (range & ((1 << RANGE_BITS) - 1) | u64::from(generation) << RANGE_BITS)
                & !GOES_ON,
        }
    }

    /// The key of accesses to this range that began in an earlier one. The file counts them there.
    pub fn going_on(self) -> Key {
        Key {
            place: self.place | GOES_ON,
            ..self
        }
    }

    /// Whether the key is one of [`Key::going_on`].
    pub fn goes_on(self) -> bool {
        self.place & GOES_ON != 0
    }

    pub fn range(self) -> u64 {
        self.place & ((1 << RANGE_BITS) - 1)
    }

    /// Inode number, and the low bits of the generation.
    pub fn file(self) -> (u64, u32) {
        (self.ino, ((self.place & !GOES_ON) >> RANGE_BITS) as u32)
    }

    /// A 10-bit hash.
    #[inline]
    pub fn mixed(self) -> usize {
        let mixed = (self.ino ^ self.place.rotate_left(24)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 54) as usize
    }
}

/// The id of a file in records: [`Key`] keeps the low bits of the generation.
pub(super) fn file_id(ino: u64, generation: u32) -> (u64, u32) {
    Key::new(ino, generation, 0).file()
}
