//! The writer of the commit log: a ring of four files that hold data already.

use super::frame::{self, HEADER, Header, SEAL_MOST};
use super::large::{self, Reference};
use super::overlay::Point;
use super::{BLOCK, FrameCipher, FrameDigest, LOG_FILES, log_name};
use crate::disk::{Access, Disk, File};
use crate::error::{Error, Result};
use crate::kv::KvOp;
use hearth_sync::primitive::Arc;
use std::ops::Range;

/// Bytes of the buffer that are kept between two epochs.
const BUFFER: usize = 1 << 20;
/// Files behind the one in use that hold epochs which no checkpoint has, from which on one is due:
/// the rest of the log has room for as much again until it is made.
const DUE: usize = 2;
/// A file takes this many parts of a large epoch.
const PARTS_OF_A_FILE: u64 = 4;

/// Opens the files of the log, which all have the length that the superblock names.
pub(crate) fn open_files(
    disk: &dyn Disk,
    access: Access,
    file_len: u64,
) -> Result<Vec<Arc<dyn File>>> {
    let open = |number| {
        let name = log_name(number);
        let missing = |what| Error::corrupt(&name, 0, what);
        let file = disk.open(&name, access).map_err(|error| match error {
            error if error.is_absent() => missing("a file of the log is missing"),
            error => error,
        })?;
        match file.size()? == file_len && file_len > 0 {
            true => Ok(file),
            false => Err(missing(
                "the file of the log has another length than at mkfs",
            )),
        }
    };
    (0..LOG_FILES).map(open).collect()
}

/// What became of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    /// It is durable. True: a checkpoint is due.
    Done(bool),
    /// The files that it needs hold epochs that no checkpoint has.
    Full,
}

/// The end of the log.
pub(crate) struct LogWriter {
    files: Vec<Arc<dyn File>>,
    file_len: u64,
    /// Every frame names it.
    pub incarnation: [u8; 16],
    cipher: Option<Arc<dyn FrameCipher>>,
    /// The newest epoch in each file.
    newest: [u64; LOG_FILES as usize],
    /// The last epoch, and where its last frame ends.
    pub last: Point,
    /// The last epoch that a checkpoint has.
    pub kept: u64,
    /// Whether epochs behind the last checkpoint may have files of their own.
    pub has_large: bool,
    /// A write that failed may have left a frame behind the end.
    is_soiled: bool,
    /// Frames of the epoch that is being written; kept for its memory.
    buffer: Vec<u8>,
}

/// Where frames go.
enum Placed {
    At(Vec<Run>),
    /// Into files that hold epochs that no checkpoint has.
    Full,
    /// Nowhere: they are more than the ring holds beside the file that is in use, or one of them is
    /// larger than a file.
    TooLarge,
}

/// A run of frames in one file.
struct Run {
    /// Byte of the whole log.
    at: u64,
    /// Bytes of the buffer.
    bytes: Range<usize>,
}

impl LogWriter {
    /// A writer that goes on at `last`. `newest` is the newest epoch in each file that a checkpoint
    /// may not have.
    pub(crate) fn new(
        files: Vec<Arc<dyn File>>,
        file_len: u64,
        incarnation: [u8; 16],
        cipher: Option<Arc<dyn FrameCipher>>,
        last: Point,
        newest: [u64; LOG_FILES as usize],
    ) -> LogWriter {
        LogWriter {
            files,
            file_len,
            incarnation,
            cipher,
            newest,
            last,
            kept: 0,
            has_large: false,
            is_soiled: false,
            buffer: Vec::new(),
        }
    }

    /// Writes an epoch behind the last one: durable when it returns, with one flush for each file
    /// that it touches, which is one file but at the border of two.
    ///
    /// # Errors
    /// After [`Error::NoSpace`] the epoch may be given again. After another error of the device
    /// nothing may be appended any more.
    pub(crate) fn append(&mut self, disk: &dyn Disk, epoch: u64, ops: &[KvOp]) -> Result<Appended> {
        if epoch <= self.last.epoch {
            let last = self.last.epoch;
            return Err(Error::Stale { epoch, last });
        }
        let (lengths, mut digest) = self.encode(epoch, ops)?;
        let mut placed = self.place(&lengths);
        if let Placed::TooLarge = placed {
            // The file that a frame of a failed attempt names is about to be made anew.
            if self.is_soiled {
                self.wipe_the_end()?;
                self.is_soiled = false;
            }
            let frames = std::mem::take(&mut self.buffer);
            let length = frames.len() as u64;
            let stored = self.encode_reference(epoch, &Reference { digest, length })?;
            digest = stored.1;
            placed = self.place(&[stored.0]);
            if let Placed::At(_) = placed {
                large::write(disk, epoch, &frames)?;
                self.has_large = true;
            }
        }
        let Placed::At(runs) = placed else {
            return Ok(Appended::Full);
        };
        self.wipe_what_a_failure_left(&runs)?;
        self.is_soiled = true;
        for run in &runs {
            let file = (run.at / self.file_len) as usize;
            let offset = run.at % self.file_len;
            self.files[file].write_at(offset, &self.buffer[run.bytes.clone()])?;
        }
        let mut flushed = None;
        for run in &runs {
            let file = (run.at / self.file_len) as usize;
            if flushed.replace(file) != Some(file) {
                self.files[file].sync()?;
            }
        }
        // Not before all is durable: no checkpoint has an epoch that failed, so it would keep its
        // files for ever.
        for run in &runs {
            self.newest[(run.at / self.file_len) as usize] = epoch;
        }
        self.is_soiled = false;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER);
        let before = self.last.log_at / self.file_len;
        let end = runs
            .last()
            .map_or(self.last.log_at, |run| run.at + run.bytes.len() as u64);
        self.last = Point {
            epoch,
            digest,
            log_at: end % (self.file_len * LOG_FILES),
        };
        let file = self.last.log_at / self.file_len;
        Ok(Appended::Done(file != before && self.unkept(file) >= DUE))
    }

    /// How many files beside `file` hold epochs that no checkpoint has.
    fn unkept(&self, file: u64) -> usize {
        let others = (0..).zip(&self.newest).filter(|&(other, _)| other != file);
        others.filter(|&(_, &newest)| newest > self.kept).count()
    }

    /// Encodes an epoch into the buffer. Returns the lengths of its frames and the digest of the
    /// last one.
    fn encode(&mut self, epoch: u64, ops: &[KvOp]) -> Result<(Vec<u64>, FrameDigest)> {
        let overhead = (HEADER + SEAL_MOST) as u64;
        let usual = self.file_len / PARTS_OF_A_FILE - overhead;
        let parts = frame::split(ops, usual)?;
        self.buffer.clear();
        let mut digest = self.last.digest;
        let mut lengths = Vec::with_capacity(parts.len());
        for (part, range) in parts.iter().enumerate() {
            let header = Header {
                part: part as u32,
                parts: parts.len() as u32,
                ..self.header(epoch, digest)
            };
            let start = self.buffer.len();
            let cipher = self.cipher.as_deref();
            let payload = |log: &mut Vec<u8>| frame::encode_records(log, &ops[range.clone()]);
            digest = frame::append(&mut self.buffer, &header, payload, cipher)?;
            lengths.push((self.buffer.len() - start) as u64);
        }
        Ok((lengths, digest))
    }

    /// The header of a frame that is an epoch of its own, behind the frame with digest `before`.
    fn header(&self, epoch: u64, before: FrameDigest) -> Header {
        Header {
            incarnation: self.incarnation,
            epoch,
            part: 0,
            parts: 1,
            length: 0,
            flags: 0,
            before,
            nonce: [0; 24],
            digest: [0; 32],
        }
    }

    /// Encodes into the buffer a frame that names the file of an epoch. Returns its length and its
    /// digest.
    fn encode_reference(
        &mut self,
        epoch: u64,
        reference: &Reference,
    ) -> Result<(u64, FrameDigest)> {
        let header = Header {
            flags: frame::IN_FILE,
            ..self.header(epoch, self.last.digest)
        };
        self.buffer.clear();
        let payload = |log: &mut Vec<u8>| reference.encode(log);
        let cipher = self.cipher.as_deref();
        let digest = frame::append(&mut self.buffer, &header, payload, cipher)?;
        Ok((self.buffer.len() as u64, digest))
    }

    /// Finds places for frames of these lengths. A frame lies in one file; a file is entered when
    /// all its epochs are part of a checkpoint.
    fn place(&self, lengths: &[u64]) -> Placed {
        let mut runs: Vec<Run> = Vec::new();
        let (mut entered, mut is_full) = (0, false);
        let mut at = self.last.log_at;
        let mut from = 0;
        for &length in lengths {
            if length > self.file_len {
                return Placed::TooLarge;
            }
            let offset = at % self.file_len;
            let is_new = offset == 0 || offset + length > self.file_len;
            if is_new {
                at = at.next_multiple_of(self.file_len) % (self.file_len * LOG_FILES);
                entered += 1;
                if entered == LOG_FILES {
                    return Placed::TooLarge;
                }
                is_full |= self.newest[(at / self.file_len) as usize] > self.kept;
            }
            let to = from + length as usize;
            match runs.last_mut() {
                Some(run) if !is_new => run.bytes.end = to,
                _ => runs.push(Run {
                    at,
                    bytes: from..to,
                }),
            }
            (at, from) = (at + length, to);
        }
        match is_full {
            true => Placed::Full,
            false => Placed::At(runs),
        }
    }

    /// A whole frame that a failed append left at the end would be taken for the epoch, if the next
    /// append went to another file.
    fn wipe_what_a_failure_left(&mut self, runs: &[Run]) -> Result<()> {
        let at = self.last.log_at;
        match self.is_soiled && runs.first().is_some_and(|run| run.at != at) {
            true => self.wipe_the_end(),
            false => Ok(()),
        }
    }

    /// Overwrites the header behind the last epoch, so that no frame begins there.
    fn wipe_the_end(&self) -> Result<()> {
        let at = self.last.log_at;
        let file = &self.files[(at / self.file_len) as usize];
        file.write_at(at % self.file_len, &[0; BLOCK as usize])?;
        file.sync()
    }
}
