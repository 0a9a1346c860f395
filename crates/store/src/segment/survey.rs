//! What is in the directory of segments, and in a segment, without the records that name it.

use super::layout::{BlockHeader, HEAD, HEADER, Summary, blocks_of_trailer, head_fault};
use super::{Segments, Stored, files};
use crate::error::{Error, Result};
use bytes::Bytes;
use std::ops::Range;
use std::path::PathBuf;

/// Bytes of headers and blocks that are read at once.
const WINDOW: u64 = 1 << 20;
/// Bytes around what cannot be read that cannot be read with it: a page of the host.
const UNREADABLE: u64 = 4096;
/// Bytes of would-be blocks that are tried for each byte of a segment. Without a bound a file of
/// nothing but headers would cost a block of 64 KiB for each 64 bytes.
const TRIED_EACH: u64 = 32;
/// And these more: a damaged header among such files, before and behind which lie 64 KiB of headers
/// each, costs 129 MiB, and hides no block.
const TRIED_MORE: u64 = 256 << 20;

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

    /// The blocks of a segment in order. Damage, and what the disk cannot read, is an error between
    /// them, and the walk goes on behind it. The last item is an error where the trailer does not
    /// agree with what came before. Blocks are not verified, but for those behind damage: bytes of
    /// a file may look like a header.
    pub fn headers(&self, number: u64) -> Headers<'_> {
        Headers {
            segments: self,
            number,
            state: Walk::Begin,
            may_try: TRIED_MORE,
        }
    }
}

/// See [`Segments::headers`].
#[derive(Debug)]
pub struct Headers<'a> {
    segments: &'a Segments,
    number: u64,
    state: Walk,
    /// Bytes of would-be blocks that are still read.
    may_try: u64,
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
        /// Where the header before is, if nothing of the segment was damaged up to here: a wrong
        /// length in it leads to a wrong place.
        before: Option<u64>,
    },
    /// There was damage: the next block is looked for from here on.
    Search {
        from: u64,
        len: u64,
    },
    End,
}

impl Iterator for Headers<'_> {
    type Item = Result<SurveyedBlock>;

    fn next(&mut self) -> Option<Result<SurveyedBlock>> {
        loop {
            let result = match std::mem::replace(&mut self.state, Walk::End) {
                Walk::Begin => match self.begin() {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                Walk::Blocks {
                    at, len, summary, ..
                } if at + HEAD as u64 >= len => match self.end(at, len, &summary) {
                    Ok(()) => return None,
                    Err(error) => Err(error),
                },
                Walk::Blocks {
                    at,
                    len,
                    summary,
                    before,
                } => self.block(at, len, summary, before),
                Walk::Search { from, len } => match self.search(from, len) {
                    Ok(found) => Ok(found?),
                    Err(error) => Err(error),
                },
                Walk::End => return None,
            };
            return Some(result);
        }
    }
}

impl Headers<'_> {
    fn begin(&mut self) -> Result<()> {
        let files = &self.segments.files;
        let place = self.segments.coder.place(self.number);
        let len = files.len(self.number)?;
        self.may_try += TRIED_EACH * len;
        let from = HEAD as u64;
        self.state = Walk::Search { from, len };
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
            before: None,
        };
        Ok(())
    }

    fn block(
        &mut self,
        at: u64,
        len: u64,
        mut summary: Summary,
        before: Option<u64>,
    ) -> Result<SurveyedBlock> {
        let from = before.unwrap_or(at) + 1;
        self.state = Walk::Search { from, len };
        let bytes = self
            .segments
            .files
            .range(self.number, at..at + HEADER as u64)?;
        let Some(found) = self.surveyed(at, &bytes) else {
            return Err(self.corrupt(at, "there is no header of a block"));
        };
        summary.add(&bytes);
        let next = found.stored.span().end;
        if next + HEAD as u64 > len {
            return Err(self.corrupt(at, "the segment ends inside a block"));
        }
        self.state = Walk::Blocks {
            at: next,
            len,
            summary,
            before: Some(at),
        };
        Ok(found)
    }

    /// The block whose header these bytes at `at` are.
    fn surveyed(&self, at: u64, bytes: &[u8]) -> Option<SurveyedBlock> {
        let header = BlockHeader::decode(bytes).filter(|header| header.len > 0)?;
        let stored = Stored {
            segment: self.number,
            at: u32::try_from(at).ok()?,
            stored_len: header.stored_len,
            len: header.len,
            within: 0,
            codec: header.codec,
            digest: header.digest,
        };
        Some(SurveyedBlock { header, stored })
    }

    /// The next block from `from` on that has its digest, if there is one. What looks like a header
    /// may be bytes of a file, which somebody has made so: how much is tried has a bound.
    fn search(&mut self, mut from: u64, len: u64) -> Result<Option<SurveyedBlock>> {
        let end = len.saturating_sub(HEAD as u64);
        while from + HEADER as u64 <= end {
            let to = end.min(from + WINDOW);
            let bytes = self.readable(from..to);
            for (at, header) in bytes.windows(HEADER).enumerate() {
                let Some(found) = self.surveyed(from + at as u64, header) else {
                    continue;
                };
                let span = found.stored.span();
                if span.end > len {
                    continue;
                }
                let Some(left) = self.may_try.checked_sub(span.end - span.start) else {
                    let what = "too much looks like headers of blocks: no more are looked for";
                    return Err(self.corrupt(span.start, what));
                };
                self.may_try = left;
                if self.segments.packed(&found.stored).is_ok() {
                    self.state = Walk::Search {
                        from: span.end,
                        len,
                    };
                    return Ok(Some(found));
                }
            }
            from += bytes.len() as u64;
            from = match from == to {
                // The last bytes may be the beginning of one.
                true => from - HEADER as u64 + 1,
                false => (from / UNREADABLE + 1) * UNREADABLE,
            };
        }
        Ok(None)
    }

    /// The bytes of a range up to the first that cannot be read.
    fn readable(&self, range: Range<u64>) -> Bytes {
        let files = &self.segments.files;
        if let Ok(bytes) = files.range(self.number, range.clone()) {
            return bytes;
        }
        let mut at = range.start;
        let mut bytes = Vec::new();
        while at < range.end {
            let to = range.end.min((at / UNREADABLE + 1) * UNREADABLE);
            match files.range(self.number, at..to) {
                Ok(more) if !more.is_empty() => bytes.extend_from_slice(&more),
                _ => break,
            }
            at = to;
        }
        bytes.into()
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
