//! Reading the commit log: what belongs to the volume behind its checkpoint, and what lies behind
//! the last frame that does.

use super::frame::{self, HEADER, Header};
use super::overlay::{Overlay, Point};
use super::superblock::Slot;
use super::{BLOCK, FrameCipher, LOG_FILES, log_name};
use crate::disk::File;
use crate::error::{Error, Result};
use crate::kv::KvOp;
use hearth_sync::primitive::Arc;

/// How much of a file is looked at in one read.
const STRIDE: u64 = 256 << 10;

/// What the log holds.
pub(crate) struct Replay {
    /// The last epoch, and where the next frame belongs.
    pub last: Point,
    /// All changes behind the checkpoint.
    pub overlay: Overlay,
    /// Good frames of later epochs, which do not belong to the volume. An opening for writing wipes
    /// them, so that the next one finds none but its own.
    pub later: Vec<u64>,
    /// The newest epoch of these, or the last one.
    pub newest: u64,
    /// Set if no crash explains these.
    pub damage: Option<Error>,
}

/// Replays the log from the checkpoint of `slot` on.
pub(crate) fn replay(
    files: &[Arc<dyn File>],
    slot: &Slot,
    cipher: Option<&dyn FrameCipher>,
) -> Result<Replay> {
    let reader = FrameReader {
        files,
        file_len: u64::from(slot.log_blocks) * BLOCK,
        cipher,
    };
    let mut last = Point {
        epoch: slot.checkpoint,
        digest: slot.digest,
        log_at: u64::from(slot.log_at) * BLOCK,
    };
    let mut overlay = Overlay::default();
    while let Some((next, ops)) = reader.next_epoch(&last, &slot.incarnation)? {
        overlay.apply(&ops);
        last = next;
    }
    let later = reader.later(last.epoch)?;
    let newest = later.iter().map(|(_, header)| header.epoch).max();
    Ok(Replay {
        last,
        overlay,
        newest: newest.unwrap_or(last.epoch),
        damage: (!is_torn(&later, slot, &last)).then(|| reader.damage(&last, &later)),
        later: later.into_iter().map(|(at, _)| at).collect(),
    })
}

/// Whether frames behind the end are what a crash leaves of one epoch: some of its parts, but not
/// the first one in another chain.
fn is_torn(later: &[(u64, Header)], slot: &Slot, last: &Point) -> bool {
    let Some((_, first)) = later.first() else {
        return true;
    };
    later.iter().all(|(_, header)| {
        header.incarnation == slot.incarnation
            && header.epoch == first.epoch
            && (header.part > 0 || header.before == last.digest)
    })
}

struct FrameReader<'a> {
    files: &'a [Arc<dyn File>],
    file_len: u64,
    cipher: Option<&'a dyn FrameCipher>,
}

struct Frame {
    at: u64,
    bytes: Vec<u8>,
    header: Header,
}

impl FrameReader<'_> {
    /// The epoch behind `last`, if all its parts are there.
    fn next_epoch(
        &self,
        last: &Point,
        incarnation: &[u8; 16],
    ) -> Result<Option<(Point, Vec<KvOp>)>> {
        let mut ops = Vec::new();
        let mut end = *last;
        let mut part = 0;
        loop {
            let Some(frame) = self.next_frame(&end, incarnation)? else {
                return Ok(None);
            };
            let header = &frame.header;
            let is_next = match part {
                0 => header.part == 0 && header.epoch > last.epoch,
                part => header.part == part && header.epoch == end.epoch,
            };
            if !is_next {
                return Ok(None);
            }
            end = Point {
                epoch: header.epoch,
                digest: header.digest,
                log_at: (frame.at + header.stored()) % (self.file_len * LOG_FILES),
            };
            part += 1;
            let is_last = part == header.parts;
            ops.append(&mut self.records(frame)?);
            if is_last {
                return Ok(Some((end, ops)));
            }
        }
    }

    /// The frame that follows `end`: there, or at the beginning of the next file.
    fn next_frame(&self, end: &Point, incarnation: &[u8; 16]) -> Result<Option<Frame>> {
        let next_file = end.log_at.next_multiple_of(self.file_len) % (self.file_len * LOG_FILES);
        for at in [end.log_at, next_file] {
            if let Some(frame) = self.frame(at)?
                && frame.header.incarnation == *incarnation
                && frame.header.before == end.digest
            {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// The frame at `at`, if there is one and its digest is good.
    fn frame(&self, at: u64) -> Result<Option<Frame>> {
        let file = &self.files[(at / self.file_len) as usize];
        let offset = at % self.file_len;
        let mut bytes = vec![0; BLOCK as usize];
        file.read_at(offset, &mut bytes)?;
        let Some(header) = Header::decode(&bytes) else {
            return Ok(None);
        };
        if offset + header.stored() > self.file_len {
            return Ok(None);
        }
        let end = HEADER + header.length as usize;
        if end > bytes.len() {
            bytes.resize(end, 0);
            file.read_at(offset + BLOCK, &mut bytes[BLOCK as usize..])?;
        }
        bytes.truncate(end);
        let is_good = frame::digest(&bytes[..HEADER], &bytes[HEADER..]) == header.digest;
        Ok(is_good.then_some(Frame { at, bytes, header }))
    }

    fn records(&self, frame: Frame) -> Result<Vec<KvOp>> {
        let Frame {
            at,
            mut bytes,
            header,
        } = frame;
        let payload = bytes.split_off(HEADER);
        let file = log_name(at / self.file_len);
        let place = (&file[..], at % self.file_len);
        frame::open_payload(&bytes, &header, payload, self.cipher, place)
    }

    /// All good frames with an epoch behind `epoch`, wherever they are.
    fn later(&self, epoch: u64) -> Result<Vec<(u64, Header)>> {
        let mut found = Vec::new();
        let mut chunk = vec![0; STRIDE.min(self.file_len) as usize];
        for (number, file) in self.files.iter().enumerate() {
            for from in (0..self.file_len).step_by(STRIDE as usize) {
                let count = file.read_at(from, &mut chunk)?;
                for (block, bytes) in chunk[..count].chunks(BLOCK as usize).enumerate() {
                    let is_later = Header::decode(bytes).is_some_and(|header| header.epoch > epoch);
                    let at = number as u64 * self.file_len + from + block as u64 * BLOCK;
                    if is_later && let Some(frame) = self.frame(at)? {
                        found.push((at, frame.header));
                    }
                }
            }
        }
        Ok(found)
    }

    fn damage(&self, last: &Point, later: &[(u64, Header)]) -> Error {
        let file = log_name(last.log_at / self.file_len);
        let behind = later
            .iter()
            .map(|(at, header)| (header.epoch, *at))
            .max()
            .unwrap_or_default();
        let what = format!(
            "the frame behind epoch {} is damaged: epoch {} is in {}, byte {}",
            last.epoch,
            behind.0,
            log_name(behind.1 / self.file_len),
            behind.1 % self.file_len
        );
        Error::corrupt(&file, last.log_at % self.file_len, what)
    }
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
