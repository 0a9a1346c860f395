//! What an access is to.

/// Bits of the range in [`Key::place`]; above them, the low bits of the generation.
const RANGE_BITS: u32 = 43;
/// Above those: see [`Key::going_on`].
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
    pub fn new(ino: u64, generation: u32, range: u64) -> Key {
        Key {
            ino,
            place: (range & ((1 << RANGE_BITS) - 1) | u64::from(generation) << RANGE_BITS)
                & !GOES_ON,
        }
    }

    /// The same range, of accesses that began in an earlier one: they count for the range, and are
    /// counted for the file there.
    pub fn going_on(self) -> Key {
        Key {
            place: self.place | GOES_ON,
            ..self
        }
    }

    /// Whether it is of such accesses.
    pub fn goes_on(self) -> bool {
        self.place & GOES_ON != 0
    }

    pub fn range(self) -> u64 {
        self.place & ((1 << RANGE_BITS) - 1)
    }

    /// Number and the bits of the generation.
    pub fn file(self) -> (u64, u32) {
        (self.ino, ((self.place & !GOES_ON) >> RANGE_BITS) as u32)
    }

    /// Whether the generation of the key is that of an inode: the bits that it keeps are equal.
    pub fn is_of(self, generation: u32) -> bool {
        self.file().1 == Key::new(0, generation, 0).file().1
    }

    /// All bits of it in ten.
    #[inline]
    pub fn mixed(self) -> usize {
        let mixed = (self.ino ^ self.place.rotate_left(24)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 54) as usize
    }
}
