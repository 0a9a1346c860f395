//! The records of a load, a commit at a time.

use super::error::{DumpError, Dumped};
use hearth_backend::{Backend, Edit, Errno, Extent, Place, Record};

/// Records of one commit.
const RECORDS: usize = 16 << 10;
/// Bytes that they carry: small files, attributes, targets of links, extents.
const BYTES: usize = 8 << 20;

/// Records up to the next commit.
pub struct RecordBatch<'a> {
    pub volume: &'a dyn Backend,
    epoch: u64,
    records: Vec<Record>,
    /// Bytes that they carry.
    bytes: usize,
}

impl<'a> RecordBatch<'a> {
    /// None of a volume that is new.
    pub fn new(volume: &'a dyn Backend) -> RecordBatch<'a> {
        RecordBatch {
            volume,
            epoch: 1,
            records: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds a record, and commits what there is where that is enough.
    pub fn push(&mut self, record: Record) -> Dumped<()> {
        self.bytes += bytes_of(&record);
        self.records.push(record);
        if self.records.len() >= RECORDS || self.bytes >= BYTES {
            self.commit()?;
        }
        Ok(())
    }

    /// Commits what there is.
    pub fn commit(&mut self) -> Dumped<()> {
        let records = std::mem::take(&mut self.records);
        self.bytes = 0;
        let done: std::result::Result<(), Errno> = self.volume.commit(self.epoch, records);
        self.epoch += 1;
        done.map_err(DumpError::at(b"", "write"))
    }
}

/// Bytes that a record carries, without what each record has.
fn bytes_of(record: &Record) -> usize {
    match record {
        Record::New { inode, .. } => {
            let xattrs = inode.xattrs.iter();
            let xattrs = xattrs.map(|(name, value)| name.len() + value.len());
            inode.target.len() + xattrs.sum::<usize>()
        }
        Record::Contents {
            edit: Edit::Write(extents),
            ..
        } => {
            let each = |extent: &Extent| match &extent.place {
                Place::Inline(bytes) | Place::Stored(bytes) => size_of::<Extent>() + bytes.len(),
                Place::Unwritten => size_of::<Extent>(),
            };
            extents.iter().map(each).sum()
        }
        Record::Setting { value, .. } => value.as_ref().map_or(0, |value| value.len()),
        _ => 0,
    }
}
