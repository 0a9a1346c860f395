//! Reading blocks: every byte that is returned was verified.

use super::coder::BlockOwner;
use super::flight::Opened;
use super::layout::{BlockHeader, HEAD, head_fault};
use super::{Segments, Stored, files};
use crate::error::{Error, Result};
use bytes::Bytes;

impl Segments {
    /// The bytes of a block from `stored.within` on, which was written for this inode.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with file and byte where anything but them is there, and what the
    /// operating system says.
    pub fn read(&self, stored: &Stored, ino: u64, generation: u32) -> Result<Bytes> {
        let read = self.block(stored)?;
        check_owner(stored, &read.header, BlockOwner { ino, generation })?;
        within(stored, &read.plain)
    }

    /// Like [`Segments::read`] for a block that another inode may have been written with: an
    /// extent that files share.
    ///
    /// # Errors
    /// See [`Segments::read`].
    pub fn read_shared(&self, stored: &Stored) -> Result<Bytes> {
        within(stored, &self.block(stored)?.plain)
    }

    /// Header and packed bytes of a block, verified and decrypted.
    pub(super) fn packed(&self, stored: &Stored) -> Result<(BlockHeader, Bytes)> {
        let bytes = self.files.range(stored.segment, stored.span())?;
        self.coder
            .packed(stored, &bytes)
            .map_err(|what| self.corrupt(stored, what))
    }

    /// What `bytes`, which the segment has at the place of the block, mean from `within` on.
    pub(super) fn verified(
        &self,
        stored: &Stored,
        bytes: &Bytes,
        owner: Option<BlockOwner>,
    ) -> Result<Bytes> {
        let read = self.decoded(stored, bytes)?;
        if let Some(owner) = owner {
            check_owner(stored, &read.header, owner)?;
        }
        within(stored, &read.plain)
    }

    fn block(&self, stored: &Stored) -> Result<Opened<BlockHeader>> {
        // Records that differ in anything else are other questions: a damaged one must not be
        // answered with what is kept.
        let block = Stored {
            within: 0,
            ..*stored
        };
        self.flights.get(block, || {
            let bytes = self.files.range(stored.segment, stored.span())?;
            self.decoded(stored, &bytes)
        })
    }

    fn decoded(&self, stored: &Stored, bytes: &Bytes) -> Result<Opened<BlockHeader>> {
        match self.coder.decode(stored, bytes) {
            Ok((header, plain)) => Ok(Opened { header, plain }),
            Err(what) => Err(self.corrupt(stored, what)),
        }
    }

    /// The error for a damaged block. Where the segment as a whole is not what it should be, that
    /// is said.
    fn corrupt(&self, stored: &Stored, what: &'static str) -> Error {
        let place = self.coder.place(stored.segment);
        let head = self.files.range(stored.segment, 0..HEAD as u64);
        let whole = head.ok().and_then(|head| head_fault(&head, place));
        Error::Corrupt {
            file: files::shown(stored.segment),
            offset: whole.map_or(stored.span().start, |_| 0),
            what: whole.unwrap_or(what).into(),
        }
    }
}

fn check_owner(stored: &Stored, header: &BlockHeader, owner: BlockOwner) -> Result<()> {
    if (header.ino, header.generation) == (owner.ino, owner.generation) {
        return Ok(());
    }
    Err(Error::Corrupt {
        file: files::shown(stored.segment),
        offset: stored.span().start,
        what: format!(
            "the block belongs to inode {} and not to {}",
            header.ino, owner.ino
        ),
    })
}

fn within(stored: &Stored, plain: &Bytes) -> Result<Bytes> {
    if stored.within < stored.len && stored.len as usize == plain.len() {
        return Ok(plain.slice(stored.within as usize..));
    }
    Err(Error::Corrupt {
        file: files::shown(stored.segment),
        offset: stored.span().start,
        what: "the extent lies outside its block".into(),
    })
}
