//! One record: what is known of a file or of one of its ranges.

use super::score::{Counts, Millis, Score};

/// A file and its generation.
pub(super) type FileId = (u64, u32);

/// The range that stands for the whole file.
pub(super) const WHOLE: u64 = u64::MAX;

/// Buckets of the map.
pub(super) const BUCKETS: usize = 256;

/// No record.
pub(super) const NIL: u32 = u32::MAX;

/// What is known of a file or of one of its ranges.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub file: FileId,
    /// In units of 1 MiB, or [`WHOLE`], of an anchor as well.
    pub range: u64,
    pub total: Counts,
    /// Pages that the backend was asked for.
    pub loads: u64,
    pub last_read: Option<Millis>,
    pub last_write: Option<Millis>,
    pub score: Score,
    pub(super) bucket: u8,
    /// Holds ranges of a file together, and is in no bucket.
    pub(super) is_anchor: bool,
    /// Neighbours in the bucket.
    pub(super) hotter: u32,
    pub(super) colder: u32,
    /// Of a file: its first range. Of a range: the next range of the file.
    pub(super) next: u32,
    /// Of a range: the one before, or the file, or the anchor.
    pub(super) before: u32,
}

/// A record without its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownHeat {
    pub total: Counts,
    pub loads: u64,
    pub last_read: Option<Millis>,
    pub last_write: Option<Millis>,
    pub score: Score,
}

/// Bytes that one record takes, its place in the index included while that grows.
pub(super) const RECORD_BYTES: u64 = size_of::<Record>() as u64 + 20;

impl Record {
    pub(super) fn new(file: FileId, range: u64) -> Record {
        Record {
            file,
            range,
            total: Counts::default(),
            loads: 0,
            last_read: None,
            last_write: None,
            score: Score::default(),
            bucket: 0,
            is_anchor: false,
            hotter: NIL,
            colder: NIL,
            next: NIL,
            before: NIL,
        }
    }

    pub(super) fn anchor(file: FileId, range: u64) -> Record {
        Record {
            is_anchor: true,
            ..Record::new(file, range)
        }
    }

    pub(super) fn is_free(&self) -> bool {
        self.file == (0, 0)
    }

    /// Bucket of the last pass.
    pub fn last_bucket(&self) -> u8 {
        self.bucket
    }
}

/// Most records that `bytes` hold.
pub(super) fn records_in(bytes: u64) -> usize {
    usize::try_from(bytes / RECORD_BYTES).unwrap_or(usize::MAX)
}
