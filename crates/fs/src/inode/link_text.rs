//! What a symbolic link says.

use crate::line::OwnLine;
use std::ops::Deref;

/// Bytes of a text that fits on one line beside its length.
const SHORT: usize = 63;
/// Bytes before and behind a longer one, so that none of its lines is another block's as well.
const MARGIN: usize = 64;

/// Where a symbolic link leads. Whoever walks through the link reads it, on all cores: so it shares
/// no cache line with other blocks of memory, which somebody may write all the time.
pub(crate) enum LinkText {
    Short(Box<OwnLine<Short>>),
    /// With a margin on both sides.
    Long(Box<[u8]>),
}

/// A text of one line.
pub(crate) struct Short {
    len: u8,
    bytes: [u8; SHORT],
}

impl LinkText {
    pub fn new(text: &[u8]) -> LinkText {
        if text.len() <= SHORT {
            let mut bytes = [0; SHORT];
            bytes[..text.len()].copy_from_slice(text);
            let len = text.len() as u8;
            return LinkText::Short(Box::new(OwnLine(Short { len, bytes })));
        }
        let margin = [0; MARGIN];
        LinkText::Long([&margin, text, &margin].concat().into())
    }
}

impl Deref for LinkText {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            LinkText::Short(line) => &line.0.bytes[..usize::from(line.0.len)],
            LinkText::Long(bytes) => &bytes[MARGIN..bytes.len() - MARGIN],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    /// The lines that a text lies on, and the bytes of its block that are on them.
    fn lines(text: &LinkText) -> (Range<usize>, Range<usize>) {
        let block = match text {
            LinkText::Short(line) => {
                let start = std::ptr::from_ref(&**line) as usize;
                start..start + size_of::<OwnLine<Short>>()
            }
            LinkText::Long(bytes) => {
                let start = bytes.as_ptr() as usize;
                start..start + bytes.len()
            }
        };
        let (start, end) = (text.as_ptr() as usize, text.as_ptr() as usize + text.len());
        (start & !63..end.next_multiple_of(64), block)
    }

    #[test]
    fn a_text_comes_back_and_no_line_of_it_is_another_block_s() {
        for len in [1, 2, 62, 63, 64, 65, 127, 128, 4095] {
            let said: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let texts: Vec<LinkText> = (0..8).map(|_| LinkText::new(&said)).collect();
            for text in &texts {
                assert_eq!(**text, said[..]);
                let (lines, block) = lines(text);
                let is_alone = block.start <= lines.start && lines.end <= block.end;
                assert!(is_alone, "{len} bytes: lines {lines:x?} of {block:x?}");
            }
        }
        assert!(LinkText::new(b"").is_empty());
    }
}
