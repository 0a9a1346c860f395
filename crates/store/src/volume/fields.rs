//! Numbers at fixed places of slots and frames, little-endian.

/// Bytes at fixed places. Places are constants below the length that the caller has checked.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// Whether the last 32 bytes are the BLAKE3 of those before.
pub(crate) fn is_sealed(bytes: &[u8]) -> bool {
    let (contents, digest) = bytes.split_at(bytes.len() - 32);
    *blake3::hash(contents).as_bytes() == digest
}

/// Writes the BLAKE3 of the bytes before the last 32 into these.
pub(crate) fn seal(bytes: &mut [u8]) {
    let (contents, digest) = bytes.split_at_mut(bytes.len() - 32);
    digest.copy_from_slice(blake3::hash(contents).as_bytes());
}

/// Random bytes.
pub(crate) fn random<const N: usize>() -> crate::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| crate::Error::Io {
        op: "draw random bytes from",
        path: "the system".into(),
        errno: hearth_backend::Errno::EIO,
    })?;
    Ok(bytes)
}
