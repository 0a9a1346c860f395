//! One record: what is known of a file or of one of its ranges.

use super::score::{Counts, Millis, Score};

/// Inode number and generation of a file.
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
    /// In units of 1 MiB; [`WHOLE`] for a file and for an anchor.
    pub range: u64,
    pub total: Counts,
    /// Pages that were fetched from the backend.
    pub loads: u64,
    pub last_read: Option<Millis>,
    pub last_write: Option<Millis>,
    pub score: Score,
    pub(super) bucket: u8,
    /// An anchor links ranges of a file whose own record is in another shard. It is in no bucket.
    pub(super) is_anchor: bool,
    /// Neighbours in the bucket.
    pub(super) hotter: u32,
    pub(super) colder: u32,
    /// For a file its first range; for a range the next range of the file.
    pub(super) next: u32,
    /// For a range the previous range, or the file or anchor.
    pub(super) before: u32,
}

/// The contents of a record, without its links.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownHeat {
    pub total: Counts,
    pub loads: u64,
    pub last_read: Option<Millis>,
    pub last_write: Option<Millis>,
    pub score: Score,
}

/// Bytes of one record, including its slot in a growing index.
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

    /// The file and the range.
    pub fn of(&self) -> (FileId, u64) {
        (self.file, self.range)
    }

    /// The contents.
    pub fn known(&self) -> KnownHeat {
        KnownHeat {
            total: self.total,
            loads: self.loads,
            last_read: self.last_read,
            last_write: self.last_write,
            score: self.score,
        }
    }

    /// The bucket as of the last pass.
    pub fn last_bucket(&self) -> u8 {
        self.bucket
    }
}

/// The number of records that fit into `bytes`.
pub(super) fn records_in(bytes: u64) -> usize {
    usize::try_from(bytes / RECORD_BYTES).unwrap_or(usize::MAX)
}
