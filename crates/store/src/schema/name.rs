//! The value of a name.

use super::bytes::Fields;
use crate::error::Result;
use hearth_backend::{Kind, Target};

/// The value of a name that means `target`.
pub fn encode_target(target: &Target) -> Box<[u8]> {
    let mut out = Vec::with_capacity(13);
    out.extend_from_slice(&target.ino.to_le_bytes());
    out.extend_from_slice(&target.generation.to_le_bytes());
    out.push(target.kind as u8);
    out.into()
}

/// What the name under `key` means.
pub fn decode_target(key: &[u8], value: &[u8]) -> Result<Target> {
    let mut fields = Fields::new(key, value);
    let ino = fields.u64()?;
    let generation = fields.u32()?;
    let kind = Kind::from_dirent(fields.u8()?).ok_or_else(|| fields.wrong("kind"))?;
    fields.end()?;
    Ok(Target {
        ino,
        generation,
        kind,
    })
}
