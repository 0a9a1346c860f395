//! Large writes, found while they come: where enough of a file was written, its write-back begins
//! before anybody asks for it.

use std::ops::Range;

/// Bytes of a file that are written back early, once they have come: enough for a segment.
pub(crate) const EARLY_BYTES: u64 = 16 << 20;
/// Files that are watched at once on a core.
const WATCHED: usize = 4;

/// What was written of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenRange {
    /// Inode.
    pub ino: u64,
    /// A range that all of it lies in.
    pub bytes: Range<u64>,
    /// Bytes written.
    pub sum: u64,
    /// Whether all of it came out of the page cache of a kernel, which keeps it.
    pub is_cached: bool,
}

impl WrittenRange {
    /// Adds what else was written of the same file.
    pub fn add(&mut self, other: &WrittenRange) {
        let (own, more) = (&self.bytes, &other.bytes);
        self.bytes = own.start.min(more.start)..own.end.max(more.end);
        self.sum += other.sum;
        self.is_cached &= other.is_cached;
    }
}

/// The files that are written to on one core.
#[derive(Default)]
pub(crate) struct WriteStreams {
    /// The last one that came is the last one here.
    watched: Vec<WrittenRange>,
}

impl WriteStreams {
    /// Takes note of a write. Returns what was written of the file once that is enough.
    pub fn note(&mut self, mut written: WrittenRange) -> Option<WrittenRange> {
        let known = self
            .watched
            .iter()
            .rposition(|file| file.ino == written.ino);
        if let Some(at) = known {
            written.add(&self.watched.remove(at));
        }
        if written.sum >= EARLY_BYTES {
            return Some(written);
        }
        if self.watched.len() == WATCHED {
            self.watched.remove(0);
        }
        self.watched.push(written);
        None
    }

    /// Everything is written back.
    pub fn clear(&mut self) {
        self.watched.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn written(ino: u64, bytes: Range<u64>) -> WrittenRange {
        WrittenRange {
            ino,
            sum: bytes.end - bytes.start,
            bytes,
            is_cached: true,
        }
    }

    #[test]
    fn a_file_is_told_of_each_time_that_enough_of_it_came() {
        let mut streams = WriteStreams::default();
        let mut told = Vec::new();
        for at in 0..40 {
            told.extend(streams.note(written(7, at * MIB..(at + 1) * MIB)));
            // Others in between.
            assert_eq!(streams.note(written(8 + at % 3, 0..10)), None);
        }
        let parts = [0..16 * MIB, 16 * MIB..32 * MIB];
        assert_eq!(told, parts.map(|bytes| written(7, bytes)));
    }

    #[test]
    fn the_file_that_was_not_written_for_longest_is_forgotten() {
        let mut streams = WriteStreams::default();
        for ino in 0..5 {
            assert_eq!(streams.note(written(ino, 0..MIB)), None);
        }
        assert_eq!(streams.note(written(0, 0..15 * MIB)), None);
        assert!(streams.note(written(4, MIB..16 * MIB)).is_some());
        streams.clear();
        assert_eq!(streams.note(written(0, 0..MIB)), None);
    }

    #[test]
    fn what_a_caller_has_written_in_between_is_kept_by_no_kernel() {
        let mut streams = WriteStreams::default();
        let own = WrittenRange {
            is_cached: false,
            ..written(7, MIB..2 * MIB)
        };
        assert_eq!(streams.note(own), None);
        let all = streams.note(written(7, 2 * MIB..20 * MIB));
        assert_eq!(all.map(|all| all.is_cached), Some(false));
        let next = streams.note(written(7, 20 * MIB..40 * MIB));
        assert_eq!(next.map(|next| next.is_cached), Some(true));
    }
}
