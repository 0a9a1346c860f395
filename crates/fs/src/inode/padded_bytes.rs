//! Bytes that share their cache lines with nothing else.

use crate::cache_padded::CachePadded;
use std::ops::Deref;

/// Bytes that fit on one line beside their length.
const SHORT: usize = 63;
/// Bytes of padding before and behind longer bytes, so that no other block shares a line with them.
const MARGIN: usize = 64;

/// Bytes that are read on all cores, such as the target of a symbolic link. They share no cache
/// line with other blocks of memory, which may be written all the time (false sharing).
#[derive(Clone)]
pub(crate) enum PaddedBytes {
    Short(Box<CachePadded<Short>>),
    /// With padding on both sides.
    Long(Box<[u8]>),
}

/// What fits on one line.
#[derive(Clone)]
pub(crate) struct Short {
    len: u8,
    bytes: [u8; SHORT],
}

impl PaddedBytes {
    pub fn new(wanted: &[u8]) -> PaddedBytes {
        if wanted.len() <= SHORT {
            let mut bytes = [0; SHORT];
            bytes[..wanted.len()].copy_from_slice(wanted);
            let len = wanted.len() as u8;
            return PaddedBytes::Short(Box::new(CachePadded(Short { len, bytes })));
        }
        let margin = [0; MARGIN];
        PaddedBytes::Long([&margin, wanted, &margin].concat().into())
    }

    /// Bytes of memory that they take. Depends on nothing but how many they are.
    pub fn memory(&self) -> usize {
        match self {
            PaddedBytes::Short(line) => size_of_val(&**line),
            PaddedBytes::Long(bytes) => bytes.len(),
        }
    }
}

impl Deref for PaddedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            PaddedBytes::Short(line) => &line.0.bytes[..usize::from(line.0.len)],
            PaddedBytes::Long(bytes) => &bytes[MARGIN..bytes.len() - MARGIN],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    /// The range of cache lines that they lie on, and the range of their block of memory.
    fn lines(text: &PaddedBytes) -> (Range<usize>, Range<usize>) {
        let block = match text {
            PaddedBytes::Short(line) => {
                let start = std::ptr::from_ref(&**line) as usize;
                start..start + size_of::<CachePadded<Short>>()
            }
            PaddedBytes::Long(bytes) => {
                let start = bytes.as_ptr() as usize;
                start..start + bytes.len()
            }
        };
        let (start, end) = (text.as_ptr() as usize, text.as_ptr() as usize + text.len());
        (start & !63..end.next_multiple_of(64), block)
    }

    #[test]
    fn padded_bytes_come_back_and_share_no_cache_line_with_another_block() {
        for len in [1, 2, 62, 63, 64, 65, 127, 128, 4095] {
            let said: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let texts: Vec<PaddedBytes> = (0..8).map(|_| PaddedBytes::new(&said)).collect();
            for text in &texts {
                assert_eq!(**text, said[..]);
                let (lines, block) = lines(text);
                let is_alone = block.start <= lines.start && lines.end <= block.end;
                assert!(is_alone, "{len} bytes: lines {lines:x?} of {block:x?}");
                assert_eq!(text.memory(), block.len());
            }
        }
        assert!(PaddedBytes::new(b"").is_empty());
    }
}
