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
}

impl WrittenRange {
    /// Adds what else was written of the same file.
    pub fn add(&mut self, other: &WrittenRange) {
        let (own, more) = (&self.bytes, &other.bytes);
        self.bytes = own.start.min(more.start)..own.end.max(more.end);
        self.sum += other.sum;
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
    pub fn note(&mut self, ino: u64, bytes: Range<u64>) -> Option<WrittenRange> {
        let sum = bytes.end - bytes.start;
        let mut file = WrittenRange { ino, bytes, sum };
        let known = self.watched.iter().rposition(|file| file.ino == ino);
        if let Some(at) = known {
            file.add(&self.watched.remove(at));
        }
        if file.sum >= EARLY_BYTES {
            return Some(file);
        }
        if self.watched.len() == WATCHED {
            self.watched.remove(0);
        }
        self.watched.push(file);
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

    #[test]
    fn a_file_is_told_of_each_time_that_enough_of_it_came() {
        let mut streams = WriteStreams::default();
        let mut told = Vec::new();
        for at in 0..40 {
            told.extend(streams.note(7, at * MIB..(at + 1) * MIB));
            // Others in between.
            assert_eq!(streams.note(8 + at % 3, 0..10), None);
        }
        let range = |bytes: Range<u64>| WrittenRange {
            ino: 7,
            sum: bytes.end - bytes.start,
            bytes,
        };
        assert_eq!(told, [range(0..16 * MIB), range(16 * MIB..32 * MIB)]);
    }

    #[test]
    fn the_file_that_was_not_written_for_longest_is_forgotten() {
        let mut streams = WriteStreams::default();
        for ino in 0..5 {
            assert_eq!(streams.note(ino, 0..MIB), None);
        }
        assert_eq!(streams.note(0, 0..15 * MIB), None);
        assert!(streams.note(4, MIB..16 * MIB).is_some());
        streams.clear();
        assert_eq!(streams.note(0, 0..MIB), None);
    }
}
