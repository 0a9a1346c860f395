//! What is in the directory of segments, and in a segment, without the records that name it.

use super::layout::{BlockHeader, HEAD, HEADER, Summary, blocks_of_trailer, head_fault};
use super::{Segments, Stored, files};
use crate::error::{Error, Result};
use std::path::PathBuf;

/// Bytes of headers and blocks that are read at once.
const WINDOW: u64 = 1 << 20;

/// A block of a segment, as its header tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurveyedBlock {
    /// Its header.
    pub header: BlockHeader,
    /// The record of the whole block.
    pub stored: Stored,
}

/// What opening removed and what it found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files that uploads left behind.
    pub uploads: usize,
    /// Segments that no record names.
    pub segments: Vec<u64>,
    /// Segments that stay, rising.
    pub kept: Vec<u64>,
    /// Files and folders that nothing of the store makes. They stay.
    pub strange: Vec<PathBuf>,
}

impl Segments {
    /// The numbers of all segments, rising.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn list(&self) -> Result<Vec<u64>> {
        Ok(self.files.walk()?.segments)
    }

    /// The numbers of all segments, rising, and all other files and folders among them.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn everything(&self) -> Result<(Vec<u64>, Vec<PathBuf>)> {
        let found = self.files.walk()?;
        let others = found.uploads.into_iter().chain(found.strange);
        Ok((found.segments, others.collect()))
    }

    /// Bytes of a segment.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where it is missing, and what the operating system says.
    pub fn len_of(&self, number: u64) -> Result<u64> {
        self.files.len(number)
    }

    /// Removes what uploads left behind and the segments that no record names. Only while nothing
    /// is written: at opening.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sweep(&self, named: &dyn Fn(u64) -> bool) -> Result<Swept> {
        let found = self.files.walk()?;
        let mut swept = Swept {
            strange: found.strange,
            ..Swept::default()
        };
        for upload in &found.uploads {
            self.files.remove_upload(upload)?;
            swept.uploads += 1;
        }
        let (kept, unnamed) = found
            .segments
            .into_iter()
            .partition(|number| named(*number));
        swept.kept = kept;
        for number in unnamed {
            self.files.delete(number)?;
            swept.segments.push(number);
        }
        Ok(swept)
    }

    /// The blocks of a segment in order; ends with an error where it is damaged. The last item is
    /// an error too where the trailer does not agree with what came before. Blocks themselves are
    /// not verified: reading them does that.
    pub fn headers(&self, number: u64) -> Headers<'_> {
        Headers {
            segments: self,
            number,
            state: Walk::Begin,
        }
    }
}

/// See [`Segments::headers`].
#[derive(Debug)]
pub struct Headers<'a> {
    segments: &'a Segments,
    number: u64,
    state: Walk,
}

#[derive(Debug)]
enum Walk {
    /// Nothing was read.
    Begin,
    /// The next header is at `at`.
    Blocks {
        at: u64,
        len: u64,
        summary: Summary,
        /// A damaged header was stepped over, which is an error already.
        damaged: bool,
    },
    End,
}

impl Iterator for Headers<'_> {
    type Item = Result<SurveyedBlock>;

    fn next(&mut self) -> Option<Result<SurveyedBlock>> {
        let result = match std::mem::replace(&mut self.state, Walk::End) {
            Walk::Begin => match self.begin() {
                Ok(()) => return self.next(),
                Err(error) => Err(error),
            },
            Walk::Blocks {
                at,
                len,
                summary,
                damaged,
            } if at + HEAD as u64 >= len => match self.end(at, len, &summary) {
                Err(error) if !damaged => Err(error),
                _ => return None,
            },
            Walk::Blocks {
                at,
                len,
                summary,
                damaged,
            } => self.block(at, len, summary, damaged),
            Walk::End => return None,
        };
        Some(result)
    }
}

impl Headers<'_> {
    fn begin(&mut self) -> Result<()> {
        let files = &self.segments.files;
        let place = self.segments.coder.place(self.number);
        let len = files.len(self.number)?;
        let head = files.range(self.number, 0..HEAD as u64)?;
        if let Some(what) = head_fault(&head, place) {
            return Err(self.corrupt(0, what));
        }
        let mut own = [0; HEAD];
        own.copy_from_slice(&head);
        self.state = Walk::Blocks {
            at: HEAD as u64,
            len,
            summary: Summary::new(&own),
            damaged: false,
        };
        Ok(())
    }

    fn block(
        &mut self,
        at: u64,
        len: u64,
        mut summary: Summary,
        damaged: bool,
    ) -> Result<SurveyedBlock> {
        let files = &self.segments.files;
        let bytes = files.range(self.number, at..at + HEADER as u64)?;
        let header = BlockHeader::decode(&bytes).filter(|header| header.len > 0);
        let Some(header) = header else {
            let next = self.next_header(at + 1, len)?;
            self.state = Walk::Blocks {
                at: next,
                len,
                summary,
                damaged: true,
            };
            return Err(self.corrupt(at, "there is no header of a block"));
        };
        summary.add(&bytes);
        let stored = Stored {
            segment: self.number,
            at: at as u32,
            stored_len: header.stored_len,
            len: header.len,
            within: 0,
            codec: header.codec,
            digest: header.digest,
        };
        let next = stored.span().end;
        if next + HEAD as u64 > len {
            return Err(self.corrupt(at, "the segment ends inside a block"));
        }
        self.state = Walk::Blocks {
            at: next,
            len,
            summary,
            damaged,
        };
        Ok(SurveyedBlock { header, stored })
    }

    /// The next place from `from` on that looks like a header, else where the trailer should be.
    fn next_header(&self, from: u64, len: u64) -> Result<u64> {
        let end = len.saturating_sub(HEAD as u64);
        let mut from = from;
        while from + HEADER as u64 <= end {
            let to = end.min(from + WINDOW);
            let bytes = self.segments.files.range(self.number, from..to)?;
            let found = bytes
                .windows(HEADER)
                .position(|bytes| BlockHeader::decode(bytes).is_some_and(|h| h.len > 0));
            match found {
                Some(at) => return Ok(from + at as u64),
                // The last bytes may be the beginning of one.
                None => from = to - HEADER as u64 + 1,
            }
            if bytes.len() < HEADER {
                break;
            }
        }
        Ok(end.max(from))
    }

    fn end(&self, at: u64, len: u64, summary: &Summary) -> Result<()> {
        let trailer = self.segments.files.range(self.number, at..len)?;
        if blocks_of_trailer(&trailer).is_none() {
            return Err(self.corrupt(at, "the segment has no trailer: it was cut off"));
        }
        if trailer[..] != summary.trailer() {
            return Err(self.corrupt(at, "head and headers are not those of the trailer"));
        }
        Ok(())
    }

    fn corrupt(&self, offset: u64, what: &str) -> Error {
        Error::Corrupt {
            file: files::shown(self.number),
            offset,
            what: what.into(),
        }
    }
}
