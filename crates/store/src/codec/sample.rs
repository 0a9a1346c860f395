//! Whether compression is worth trying, told from a sample.
//!
//! A strong compressor takes up to a hundred times as long as the disk to find out that noise is
//! noise. The sample takes a few microseconds for a block of 64 KiB.

/// Bytes of one piece, and how far apart pieces begin: one from each page of 4,096, because files
/// differ from page to page.
const PIECE: usize = 256;
const STEP: usize = 4096;
/// Pieces at most.
const PIECES: usize = 16;

/// Whether `plain` may gain an eighth.
pub fn promising(plain: &[u8]) -> bool {
    let mut sample = [0u8; PIECE * PIECES];
    let mut filled = 0;
    for piece in plain.chunks(STEP).take(PIECES) {
        let piece = &piece[..piece.len().min(PIECE)];
        sample[filled..filled + piece.len()].copy_from_slice(piece);
        filled += piece.len();
    }
    let sample = &sample[..filled];
    few_values(sample) || repeats(sample)
}

/// Whether coding each byte by how often it occurs gains something: text and numbers.
fn few_values(sample: &[u8]) -> bool {
    let mut counts = [0u32; 256];
    for byte in sample {
        counts[usize::from(*byte)] += 1;
    }
    let all = sample.len() as f32;
    let bits: f32 = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| *count as f32 * (all / *count as f32).log2())
        .sum();
    // A sample of noise looks a little better than it is: its 4,096 bytes have 7.95 bits each.
    bits < all * 7.2
}

/// Whether strings repeat, which bytes of equal frequency may do too.
fn repeats(sample: &[u8]) -> bool {
    let mut packed = [0u8; PIECE * PIECES * 2];
    match lz4_flex::block::compress_into(sample, &mut packed) {
        Ok(len) => len + sample.len() / 16 <= sample.len(),
        Err(_) => true,
    }
}
