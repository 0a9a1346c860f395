//! Bytes of fixed lengths, read one after the other.

/// The first `N` bytes, which are taken off; `None` if there are fewer.
pub fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (chunk, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*chunk)
}

/// The first `len` bytes, which are taken off; `None` if there are fewer.
pub fn take_slice<'b>(bytes: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (part, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(part)
}
