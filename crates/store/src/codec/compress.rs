//! Compression of one block.

use super::sample;
use hearth_sync::primitive::thread_local;
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

/// How bytes are packed. The number is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Not at all.
    None = 0,
    /// LZ4 block.
    Lz4 = 1,
    /// Zstandard frame.
    Zstd = 2,
    /// As they are, without the zeros at their end.
    Trimmed = 3,
}

impl Codec {
    /// The codec with this number.
    pub fn from_number(number: u8) -> Option<Codec> {
        Some(match number {
            0 => Codec::None,
            1 => Codec::Lz4,
            2 => Codec::Zstd,
            3 => Codec::Trimmed,
            _ => return None,
        })
    }
}

/// What to pack new blocks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard with this level, 1 to 19.
    Zstd(i32),
}

impl Compression {
    /// Packs what `out` has from `begin` on, if that gains at least an eighth; otherwise it stays
    /// as it is and is not copied. The codec says which. `packed` is a buffer.
    pub fn pack_from(self, out: &mut Vec<u8>, begin: usize, packed: &mut Vec<u8>) -> Codec {
        let plain = &out[begin..];
        if self == Compression::None || !sample::promising(plain) {
            return trim(out, begin);
        }
        packed.resize(lz4_flex::block::get_maximum_output_size(plain.len()), 0);
        let (codec, len) = match self {
            Compression::None => (Codec::None, None),
            Compression::Lz4 => (Codec::Lz4, lz4(plain, packed)),
            Compression::Zstd(level) => (Codec::Zstd, zstd(plain, level, packed)),
        };
        let limit = plain.len() - plain.len() / 8;
        match len.filter(|len| *len <= limit && *len < plain.len()) {
            Some(len) => {
                out.truncate(begin);
                out.extend_from_slice(&packed[..len]);
                codec
            }
            None => trim(out, begin),
        }
    }
}

/// Zeros at the end of a block that are worth a copy when it is read.
const ZEROS_MIN: usize = 512;

/// Cuts zeros off the end of `out`, down to one byte behind `begin`: the last page of a small file
/// is mostly zeros.
pub fn trim(out: &mut Vec<u8>, begin: usize) -> Codec {
    let last = out[begin..].iter().rposition(|byte| *byte != 0);
    let end = begin + last.unwrap_or(0) + 1;
    if end + ZEROS_MIN > out.len() {
        return Codec::None;
    }
    out.truncate(end);
    Codec::Trimmed
}

/// The `len` bytes that `packed` was made of; `None` where it was made of nothing of that length.
pub fn unpack(codec: Codec, packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut plain = vec![0; len];
    let filled = match codec {
        Codec::None => return (packed.len() == len).then(|| packed.to_vec()),
        Codec::Trimmed => {
            plain.get_mut(..packed.len())?.copy_from_slice(packed);
            return Some(plain);
        }
        Codec::Lz4 => lz4_flex::block::decompress_into(packed, &mut plain).ok(),
        Codec::Zstd => DECOMPRESSOR.with(|kept| {
            let mut kept = kept.borrow_mut();
            let decompressor = match &mut *kept {
                Some(decompressor) => decompressor,
                kept => kept.insert(Decompressor::new().ok()?),
            };
            decompressor
                .decompress_to_buffer(packed, plain.as_mut_slice())
                .ok()
        }),
    };
    (filled == Some(len)).then_some(plain)
}

fn lz4(plain: &[u8], out: &mut [u8]) -> Option<usize> {
    lz4_flex::block::compress_into(plain, out).ok()
}

fn zstd(plain: &[u8], level: i32, out: &mut [u8]) -> Option<usize> {
    COMPRESSOR.with(|kept| {
        let mut kept = kept.borrow_mut();
        let compressor = match &mut *kept {
            Some((with, compressor)) if *with == level => compressor,
            kept => &mut kept.insert((level, Compressor::new(level).ok()?)).1,
        };
        compressor.compress_to_buffer(plain, out).ok()
    })
}

thread_local! {
    // Making a context costs more than compressing a block with it.
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}
