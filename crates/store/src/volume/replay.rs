//! Reading the commit log: what belongs to the volume behind its checkpoint, and what lies behind
//! the last frame that does.

use super::frame::{self, HEADER, Header, IN_FILE};
use super::large::{self, Reference};
use super::log_blocks::{frame_of, read_what_can_be};
use super::overlay::{Overlay, Point};
use super::superblock::Slot;
use super::{BLOCK, FrameCipher, LOG_FILES, log_name};
use crate::disk::{Access, Disk, File};
use crate::error::{Error, Result};
use crate::kv::KvOp;
use hearth_sync::primitive::Arc;
use std::ops::Range;

/// How much of a file is looked at in one read.
const STRIDE: u64 = 256 << 10;

/// What the log holds.
pub(crate) struct Replay {
    /// The last epoch, and where the next frame belongs.
    pub last: Point,
    /// The newest epoch behind the checkpoint in each file, else 0.
    pub newest_of: [u64; LOG_FILES as usize],
    /// All changes behind the checkpoint.
    pub overlay: Overlay,
    /// Good frames of later epochs and known incarnations, which do not belong to the volume, and
    /// places of the next frame that cannot be read. An opening for writing wipes them, so that the
    /// next one finds none but its own.
    pub later: Vec<u64>,
    /// The newest epoch of these, or the last one.
    pub newest: u64,
    /// Set if no crash explains these.
    pub damage: Option<Error>,
}

/// Replays the log from the checkpoint of `slot` on. Behind its end frames count that name the
/// incarnation of `slot` or of the witness.
pub(crate) fn replay(
    disk: &dyn Disk,
    files: &[Arc<dyn File>],
    slot: &Slot,
    witnessed: Option<[u8; 16]>,
    cipher: Option<&dyn FrameCipher>,
) -> Result<Replay> {
    let reader = FrameReader {
        disk,
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
    let mut damage = None;
    let (mut taken, mut unread) = (Vec::new(), Vec::new());
    let mut newest_of = [0; LOG_FILES as usize];
    loop {
        match reader.next_epoch(&last, &slot.incarnation)? {
            Next::Epoch(mut next) => {
                overlay.apply(&next.ops);
                for frame in &next.frames {
                    newest_of[(frame.start / reader.file_len) as usize] = next.end.epoch;
                }
                taken.append(&mut next.frames);
                last = next.end;
            }
            Next::End => break,
            Next::Unreadable(places) => {
                damage = places.first().map(|at| reader.unreadable(&last, *at));
                unread = places;
                break;
            }
            Next::Damaged(error) => {
                damage = Some(error);
                break;
            }
        }
    }
    let known = [slot.incarnation, witnessed.unwrap_or(slot.incarnation)];
    let later = reader.later(last.epoch, &known, taken)?;
    let newest = later.iter().map(|(_, header)| header.epoch).max();
    Ok(Replay {
        last,
        newest_of,
        overlay,
        newest: newest.unwrap_or(last.epoch),
        damage: damage
            .or_else(|| (!is_torn(&later, slot, &last)).then(|| reader.damage(&last, &later))),
        later: later.into_iter().map(|(at, _)| at).chain(unread).collect(),
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
    disk: &'a dyn Disk,
    files: &'a [Arc<dyn File>],
    file_len: u64,
    cipher: Option<&'a dyn FrameCipher>,
}

struct Frame {
    at: u64,
    bytes: Vec<u8>,
    header: Header,
}

/// An epoch that was read.
struct Epoch {
    end: Point,
    ops: Vec<KvOp>,
    /// Bytes of the whole log that its frames take.
    frames: Vec<Range<u64>>,
}

/// What lies behind an epoch.
enum Next {
    /// The next one.
    Epoch(Epoch),
    /// Nothing that is whole.
    End,
    /// Nobody knows: one of these places, where its next frame may be, cannot be read.
    Unreadable(Vec<u64>),
    /// One that was whole once: a frame names a file that is not as it was written.
    Damaged(Error),
}

/// What follows a frame.
enum Follower {
    Frame(Frame),
    Nothing,
    /// None of the places that can be read has it.
    Unreadable(Vec<u64>),
}

impl FrameReader<'_> {
    /// The epoch behind `last`, if all its parts are there.
    fn next_epoch(&self, last: &Point, incarnation: &[u8; 16]) -> Result<Next> {
        let (mut ops, mut frames) = (Vec::new(), Vec::new());
        let mut end = *last;
        let mut part = 0;
        loop {
            let frame = match self.next_frame(&end, incarnation)? {
                Follower::Frame(frame) => frame,
                Follower::Nothing => return Ok(Next::End),
                Follower::Unreadable(places) => return Ok(Next::Unreadable(places)),
            };
            let header = &frame.header;
            let is_next = match part {
                0 => header.part == 0 && header.epoch > last.epoch,
                part => header.part == part && header.epoch == end.epoch,
            };
            if !is_next {
                return Ok(Next::End);
            }
            end = Point {
                epoch: header.epoch,
                digest: header.digest,
                log_at: (frame.at + header.stored()) % (self.file_len * LOG_FILES),
            };
            frames.push(frame.at..frame.at + header.stored());
            part += 1;
            let is_last = part == header.parts;
            if header.flags & IN_FILE != 0 {
                return Ok(match self.large(last, frame) {
                    Ok(ops) => Next::Epoch(Epoch { end, ops, frames }),
                    Err(error @ Error::Corrupt { .. }) => Next::Damaged(error),
                    Err(error) => return Err(error),
                });
            }
            match self.records(frame) {
                Ok(mut records) => ops.append(&mut records),
                Err(error @ Error::Corrupt { .. }) => return Ok(Next::Damaged(error)),
                Err(error) => return Err(error),
            }
            if is_last {
                return Ok(Next::Epoch(Epoch { end, ops, frames }));
            }
        }
    }

    /// The frame that follows `end`: there, or at the beginning of the next file.
    fn next_frame(&self, end: &Point, incarnation: &[u8; 16]) -> Result<Follower> {
        let next_file = end.log_at.next_multiple_of(self.file_len) % (self.file_len * LOG_FILES);
        let follows =
            |header: &Header| header.incarnation == *incarnation && header.before == end.digest;
        let mut unread = Vec::new();
        for at in [end.log_at, next_file] {
            match self.frame(at, &follows) {
                Ok(Some(frame)) => return Ok(Follower::Frame(frame)),
                Ok(None) => {}
                Err(error) if error.is_unreadable() => unread.push(at),
                Err(error) => return Err(error),
            }
        }
        match unread.is_empty() {
            true => Ok(Follower::Nothing),
            false => Ok(Follower::Unreadable(unread)),
        }
    }

    /// The records of the epoch behind `last` whose file `frame` names.
    fn large(&self, last: &Point, frame: Frame) -> Result<Vec<KvOp>> {
        let naming = frame.header.clone();
        let damage = |at, what: &str| large::damage(naming.epoch, at, what);
        let payload = self.payload(frame)?;
        let reference = Reference::decode(&payload)
            .ok_or_else(|| damage(0, "the frame that names the file makes no sense"))?;
        let opened = self.disk.open(&large::name(naming.epoch), Access::Read);
        let file = opened.map_err(|error| match error.is_absent() {
            true => damage(0, "the file of an epoch is missing"),
            false => error,
        })?;
        if file.size()? != reference.length {
            return Err(damage(
                0,
                "the file of an epoch has another length than it was given",
            ));
        }
        let (mut ops, mut at, mut part, mut before) = (Vec::new(), 0, 0, last.digest);
        while at < reference.length {
            let follows = |header: &Header| {
                let place = (header.incarnation, header.epoch, header.part, header.before);
                place == (naming.incarnation, naming.epoch, part, before)
            };
            let frame = match frame_of(&*file, reference.length, at, &follows) {
                Err(error) if error.is_unreadable() => {
                    return Err(damage(at, "a frame cannot be read"));
                }
                frame => frame?,
            };
            let (bytes, header) = frame.ok_or_else(|| damage(at, "a frame is damaged"))?;
            let name = large::name(naming.epoch);
            let (head, payload) = bytes.split_at(HEADER);
            let place = (&name[..], at);
            let plain = frame::open_payload(head, &header, payload.to_vec(), self.cipher, place)?;
            ops.append(&mut frame::records(&plain, place)?);
            (at, part, before) = (at + header.stored(), part + 1, header.digest);
        }
        match before == reference.digest {
            true => Ok(ops),
            false => Err(damage(
                at,
                "the file does not end with the frame that was written last",
            )),
        }
    }

    /// The frame at `at`, if there is one that is wanted and its digest is good.
    fn frame(&self, at: u64, wanted: &dyn Fn(&Header) -> bool) -> Result<Option<Frame>> {
        let file = &self.files[(at / self.file_len) as usize];
        let found = frame_of(&**file, self.file_len, at % self.file_len, wanted)?;
        Ok(found.map(|(bytes, header)| Frame { at, bytes, header }))
    }

    fn records(&self, frame: Frame) -> Result<Vec<KvOp>> {
        let (file, at) = (log_name(frame.at / self.file_len), frame.at % self.file_len);
        frame::records(&self.payload(frame)?, (&file, at))
    }

    fn payload(&self, frame: Frame) -> Result<Vec<u8>> {
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

    /// All good frames of these incarnations with an epoch behind `epoch`, but for what lies inside
    /// of them and inside of the frames that were taken.
    ///
    /// The bytes of a file lie in a frame as they are, and its owner may have written any frame
    /// into it: nobody but the volume knows the incarnations, and no frame begins inside another.
    fn later(
        &self,
        epoch: u64,
        known: &[[u8; 16]],
        mut taken: Vec<Range<u64>>,
    ) -> Result<Vec<(u64, Header)>> {
        taken.sort_unstable_by_key(|frame| frame.start);
        let mut taken = taken.into_iter().peekable();
        let mut found = Vec::new();
        let is_later =
            |header: &Header| header.epoch > epoch && known.contains(&header.incarnation);
        // The end of a frame that was taken or found.
        let mut behind = 0;
        let mut chunk = vec![0; STRIDE.min(self.file_len) as usize];
        for (number, file) in self.files.iter().enumerate() {
            for from in (0..self.file_len).step_by(STRIDE as usize) {
                let count = read_what_can_be(&**file, from, &mut chunk)?;
                for (block, bytes) in chunk[..count].chunks(BLOCK as usize).enumerate() {
                    let at = number as u64 * self.file_len + from + block as u64 * BLOCK;
                    while let Some(frame) = taken.next_if(|frame| frame.start <= at) {
                        behind = behind.max(frame.end);
                    }
                    if at < behind || !Header::decode(bytes).is_some_and(|it| is_later(&it)) {
                        continue;
                    }
                    let frame = match self.frame(at, &is_later) {
                        // It is not whole.
                        Err(error) if error.is_unreadable() => None,
                        frame => frame?,
                    };
                    if let Some(frame) = frame {
                        behind = at + frame.header.stored();
                        found.push((at, frame.header));
                    }
                }
            }
        }
        Ok(found)
    }

    fn unreadable(&self, last: &Point, at: u64) -> Error {
        let (file, at) = (log_name(at / self.file_len), at % self.file_len);
        let what = format!("what may lie behind epoch {} cannot be read", last.epoch);
        Error::corrupt(&file, at, what)
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
