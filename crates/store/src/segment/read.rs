//! Reading blocks: every byte that is returned was verified.

use super::coder::Owner;
use super::flight::Read;
use super::layout::{BlockHeader, HEAD, head_fault};
use super::{Segments, Stored, files};
use crate::error::{Error, Result};
use bytes::Bytes;

/// Bytes of one call at most where several blocks are read.
const RUN_MAX: u64 = 4 << 20;

impl Segments {
    /// The bytes of a block from `stored.within` on, which was written for this inode.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with file and byte where anything but them is there, and what the
    /// operating system says.
    pub fn read(&self, stored: &Stored, ino: u64, generation: u32) -> Result<Bytes> {
        let read = self.block(stored)?;
        check_owner(stored, &read.header, Owner { ino, generation })?;
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

    /// [`Segments::read`] of several blocks, with one call for blocks that lie one behind the
    /// other; for long reads and for reading ahead. Calls `take` for each block in order, with the
    /// result of its own.
    pub fn read_run(
        &self,
        blocks: &[Stored],
        ino: u64,
        generation: u32,
        take: &mut dyn FnMut(&Stored, Result<Bytes>),
    ) {
        let owner = Owner { ino, generation };
        let mut rest = blocks;
        while let Some(first) = rest.first() {
            let len = run_len(rest);
            let (run, behind) = rest.split_at(len);
            rest = behind;
            if len == 1 {
                take(first, self.read(first, ino, generation));
                continue;
            }
            let start = first.span().start;
            let end = run.iter().map(|b| b.span().end).max().unwrap_or(start);
            match self.files.range(first.segment, start..end) {
                Ok(bytes) => {
                    for stored in run {
                        let span = stored.span();
                        let from = ((span.start - start) as usize).min(bytes.len());
                        let to = ((span.end - start) as usize).min(bytes.len());
                        let result =
                            self.decoded(stored, &bytes.slice(from..to))
                                .and_then(|read| {
                                    check_owner(stored, &read.header, owner)?;
                                    within(stored, &read.plain)
                                });
                        take(stored, result);
                    }
                }
                Err(error) => run.iter().for_each(|b| take(b, Err(error.clone()))),
            }
        }
    }

    /// Header and packed bytes of a block, verified and decrypted.
    pub(super) fn packed(&self, stored: &Stored) -> Result<(BlockHeader, Bytes)> {
        let bytes = self.files.range(stored.segment, stored.span())?;
        self.coder
            .packed(stored, &bytes)
            .map_err(|what| self.corrupt(stored, what))
    }

    fn block(&self, stored: &Stored) -> Result<Read<BlockHeader>> {
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

    fn decoded(&self, stored: &Stored, bytes: &Bytes) -> Result<Read<BlockHeader>> {
        match self.coder.decode(stored, bytes) {
            Ok((header, plain)) => Ok(Read { header, plain }),
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

/// How many blocks from the first one on lie one behind the other and fit one call.
fn run_len(blocks: &[Stored]) -> usize {
    let first = blocks[0];
    let mut end = first.span().end;
    let behind = blocks[1..].iter().take_while(|next| {
        let span = next.span();
        let joins = next.segment == first.segment
            && span.start == end
            && span.end - first.span().start <= RUN_MAX;
        end = span.end;
        joins
    });
    1 + behind.count()
}

fn check_owner(stored: &Stored, header: &BlockHeader, owner: Owner) -> Result<()> {
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
