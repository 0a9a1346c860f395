//! Blocks of a file of the log: frames that begin there, and blocks that cannot be read.

use super::BLOCK;
use super::frame::{self, HEADER, Header};
use crate::disk::File;
use crate::error::Result;
use hearth_sync::primitive::Arc;

/// Reads blocks of a file; those that cannot be read are zeros.
pub(super) fn read_what_can_be(file: &dyn File, from: u64, into: &mut [u8]) -> Result<usize> {
    match file.read_at(from, into) {
        Err(error) if error.is_unreadable() => {}
        read => return read,
    }
    for (at, block) in (from..)
        .step_by(BLOCK as usize)
        .zip(into.chunks_mut(BLOCK as usize))
    {
        match file.read_at(at, block) {
            Err(error) if error.is_unreadable() => block.fill(0),
            read => drop(read?),
        }
    }
    Ok(into.len())
}

/// The bytes and the header of the frame at `offset` of a file, if there is one that is wanted and
/// its digest is good. Of others no more than a block is read.
pub(super) fn frame_of(
    file: &dyn File,
    file_len: u64,
    offset: u64,
    wanted: &dyn Fn(&Header) -> bool,
) -> Result<Option<(Vec<u8>, Header)>> {
    let mut bytes = vec![0; BLOCK as usize];
    file.read_at(offset, &mut bytes)?;
    let Some(header) = Header::decode(&bytes) else {
        return Ok(None);
    };
    if offset + header.stored() > file_len || !wanted(&header) {
        return Ok(None);
    }
    let end = HEADER + header.length as usize;
    if end > bytes.len() {
        bytes.resize(end, 0);
        file.read_at(offset + BLOCK, &mut bytes[BLOCK as usize..])?;
    }
    bytes.truncate(end);
    let is_good = frame::digest(&bytes[..HEADER], &bytes[HEADER..]) == header.digest;
    Ok(is_good.then_some((bytes, header)))
}

/// Overwrites the headers of frames, durably.
pub(crate) fn wipe(files: &[Arc<dyn File>], file_len: u64, frames: &[u64]) -> Result<()> {
    for at in frames {
        let file = &files[(at / file_len) as usize];
        file.write_at(at % file_len, &[0; BLOCK as usize])?;
        file.sync()?;
    }
    Ok(())
}
