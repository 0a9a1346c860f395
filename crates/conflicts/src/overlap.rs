//! Cache lines that two windows touched, and their conflicts.

/// Callers that are recorded with an access.
pub const FRAMES: usize = 12;

/// A cache line that a window touched, as the recorder writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its address, a multiple of 64.
    pub address: usize,
    /// What was read.
    pub read: Side,
    /// What was written.
    pub write: Side,
    /// Read-modify-writes.
    pub modifies: u32,
    /// Atomic stores.
    pub stores: u32,
}

impl Line {
    /// Returns whether anything was written.
    pub fn is_written(&self) -> bool {
        self.write.bytes != 0
    }
}

/// The reads, or the writes, of one line.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// One bit for each byte.
    pub bytes: u64,
    depth: u64,
    frames: [usize; FRAMES],
}

impl Side {
    /// Return addresses of the first access, innermost first.
    pub fn frames(&self) -> &[usize] {
        &self.frames[..self.depth as usize]
    }
}

/// A line that one window wrote and the other touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Address of the line.
    pub address: usize,
    /// The accesses that meet: the writes of a window that wrote, else its reads.
    pub sides: [Side; 2],
    /// Whether each of the two is a write.
    pub writes: [bool; 2],
    /// No byte is in conflict: the sides use different bytes of the line.
    pub is_false_sharing: bool,
}

impl Side {
    /// Numbers in a side's encoding.
    const WORDS: usize = 2 + FRAMES;

    fn words(&self) -> impl Iterator<Item = u64> {
        let frames = self.frames.iter().map(|&frame| frame as u64);
        [self.bytes, self.depth].into_iter().chain(frames)
    }

    fn of_words(words: &[u64]) -> Side {
        Side {
            bytes: words[0],
            depth: words[1].min(FRAMES as u64),
            frames: std::array::from_fn(|n| words[2 + n] as usize),
        }
    }
}

impl Conflict {
    /// Numbers in a conflict's encoding.
    pub const WORDS: usize = 2 + 2 * Side::WORDS;

    /// Returns the conflict as numbers, for another process.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let [a, b] = self.writes.map(u64::from);
        let flags = a | b << 1 | u64::from(self.is_false_sharing) << 2;
        let sides = self.sides.iter().flat_map(Side::words);
        [self.address as u64, flags].into_iter().chain(sides)
    }

    /// Returns the conflict of [`Conflict::WORDS`] such numbers.
    pub fn of_words(words: &[u64]) -> Conflict {
        let (head, sides) = words.split_at(2);
        let flag = |bit: u32| head[1] >> bit & 1 == 1;
        Conflict {
            address: head[0] as usize,
            sides: [0, 1].map(|n| Side::of_words(&sides[n * Side::WORDS..])),
            writes: [flag(0), flag(1)],
            is_false_sharing: flag(2),
        }
    }
}

/// Returns the lines in conflict, by address.
pub fn overlap(a: &[Line], b: &[Line]) -> Vec<Conflict> {
    let by_address = |lines: &[Line]| {
        let mut order: Vec<(usize, usize)> =
            lines.iter().map(|line| line.address).zip(0..).collect();
        order.sort_unstable();
        order
    };
    let (of_a, of_b) = (by_address(a), by_address(b));
    let mut rest = of_a.iter().peekable();
    let mut found = Vec::new();
    for (address, in_b) in of_b {
        while rest.next_if(|(lower, _)| *lower < address).is_some() {}
        match rest.peek() {
            Some(&&(same, in_a)) if same == address => found.extend(conflict(&a[in_a], &b[in_b])),
            _ => {}
        }
    }
    found
}

fn conflict(a: &Line, b: &Line) -> Option<Conflict> {
    let writes = [a.write.bytes != 0, b.write.bytes != 0];
    if writes == [false, false] {
        return None;
    }
    let touched = |line: &Line| line.read.bytes | line.write.bytes;
    let common = (a.write.bytes & touched(b)) | (b.write.bytes & touched(a));
    let side = |line: &Line, writes: bool| {
        if writes { line.write } else { line.read }
    };
    Some(Conflict {
        address: a.address,
        sides: [side(a, writes[0]), side(b, writes[1])],
        writes,
        is_false_sharing: common == 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(address: usize, read: u64, write: u64) -> Line {
        let side = |bytes| Side {
            bytes,
            ..Side::default()
        };
        Line {
            address,
            read: side(read),
            write: side(write),
            ..Line::default()
        }
    }

    #[test]
    fn two_readers_of_a_line_do_not_conflict() {
        assert_eq!(overlap(&[line(64, 1, 0)], &[line(64, 1, 0)]), []);
    }

    #[test]
    fn a_writer_conflicts_with_a_reader_or_writer_of_the_line() {
        for (a, b, writes, is_false) in [
            (line(64, 0, 1), line(64, 1, 0), [true, false], false),
            (line(64, 1, 0), line(64, 0, 1), [false, true], false),
            (line(64, 0, 1), line(64, 0, 1), [true, true], false),
            (line(64, 0, 1), line(64, 2, 0), [true, false], true),
        ] {
            let found = overlap(&[a], &[b]);
            assert_eq!(found.len(), 1);
            assert_eq!(
                (found[0].writes, found[0].is_false_sharing),
                (writes, is_false)
            );
        }
    }

    #[test]
    fn a_conflict_survives_encoding() {
        let mut found = overlap(&[line(64, 0, 1)], &[line(64, 2, 0)]).remove(0);
        found.sides[1].depth = 2;
        found.sides[1].frames[1] = 7;
        let words: Vec<u64> = found.words().collect();
        assert_eq!(words.len(), Conflict::WORDS);
        assert_eq!(Conflict::of_words(&words), found);
    }

    #[test]
    fn different_lines_do_not_conflict() {
        assert_eq!(overlap(&[line(64, 0, 1)], &[line(128, 0, 1)]), []);
    }
}
