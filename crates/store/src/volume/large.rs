//! Epochs that the ring of log files has no room for: a file of their own.
//!
//! The file holds the frames of the epoch, chained as in the ring, and is durable before a frame of
//! the ring names it by its length and the digest of its last frame. It is removed when a
//! checkpoint has the epoch and both slots of the superblock say so. A file that no frame names is
//! what a crash left.

use super::{FrameDigest, fields};
use crate::disk::Disk;
use crate::error::{Error, Result};
use std::ops::Range;

const FOLDER: &str = "log";
const PREFIX: &str = "epoch-";

/// What the frame in the ring says.
pub(crate) struct Reference {
    pub digest: FrameDigest,
    pub length: u64,
}

impl Reference {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.digest);
        out.extend_from_slice(&self.length.to_le_bytes());
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Reference> {
        (bytes.len() == 40).then(|| Reference {
            digest: fields::array(bytes, 0),
            length: fields::u64_at(bytes, 32),
        })
    }
}

/// The file of an epoch.
pub(crate) fn name(epoch: u64) -> String {
    format!("{FOLDER}/{PREFIX}{epoch}")
}

/// Makes the file of an epoch, durably; nothing is left if that fails.
pub(crate) fn write(disk: &dyn Disk, epoch: u64, frames: &[u8]) -> Result<()> {
    let name = name(epoch);
    let write = || {
        // An earlier attempt may have left one.
        disk.remove(&name)?;
        let file = disk.create(&name)?;
        file.write_at(0, frames)?;
        file.sync()?;
        disk.sync_dir(FOLDER)
    };
    write().inspect_err(|_| {
        // What cannot be removed now goes with the next opening.
        let _ = disk.remove(&name);
    })
}

/// Removes the files of epochs outside `needed`. What cannot be removed goes with the next opening.
/// True: others are there.
pub(crate) fn sweep(disk: &dyn Disk, needed: &Range<u64>) -> Result<bool> {
    let mut is_any = false;
    for name in disk.list(FOLDER)? {
        let epoch = name
            .strip_prefix(PREFIX)
            .and_then(|epoch| epoch.parse().ok());
        match epoch.map(|epoch| needed.contains(&epoch)) {
            None => {}
            Some(true) => is_any = true,
            Some(false) => disk.remove(&format!("{FOLDER}/{name}"))?,
        }
    }
    Ok(is_any)
}

/// That the file of an epoch is not as it was written.
pub(crate) fn damage(epoch: u64, at: u64, what: &str) -> Error {
    Error::corrupt(&name(epoch), at, what)
}
