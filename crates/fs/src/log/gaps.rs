//! Ranges that a kernel in front may have yet to write: what lies between the size and a write of
//! its page cache behind the size. See "Writes that overtake others" in `docs/design/log.md`.
//!
//! Few files have any, for a few microseconds mostly. So they lie in one table, and a count beside
//! it tells everybody else that there is nothing to look for.

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::Ordering::{Acquire, Release};
use hearth_sync::primitive::atomic::{AtomicUsize, fence};
use hearth_sync::primitive::thread;
use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

lock_class!(GapsLock = "log.gaps", 984);

/// Longer than a kernel keeps a page unwritten: it begins with those that are 30 s old, and looks
/// for them each 5 s.
const LATEST: Duration = Duration::from_secs(60);
/// Longer than a write takes that the kernel has sent, on a machine that is busy.
const IN_FLIGHT: Duration = Duration::from_secs(1);
/// Longer than such a write takes mostly: what a sync waits, and what is waited after a close.
const SHORT: Duration = Duration::from_millis(20);
/// Time between two looks of who waits for gaps.
const LOOK: Duration = Duration::from_millis(1);
/// Gaps of a file that are remembered; the oldest one beyond is taken for a hole.
const REMEMBERED: usize = 1024;
/// Files with gaps from which on those are forgotten whose gaps are all holes.
const MANY_FILES: usize = 256;

/// The gaps of all files of a volume.
pub(crate) struct Gaps {
    files: Lock<GapsLock, HashMap<u64, FileGaps>>,
    /// How many files have gaps.
    count: AtomicUsize,
}

/// Which gaps are waited for, and which are holes that somebody made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GapWait {
    /// Those that began later: the kernel has written all that it kept before.
    Since(Instant),
    /// Those that a write which is under way may fill.
    InFlight,
    /// Those that a page may fill which the kernel keeps.
    Kept,
}

#[derive(Default)]
struct FileGaps {
    /// The oldest first.
    gaps: Vec<Gap>,
    /// The kernel has written all that it kept, so only what is in flight may come.
    is_flushed: bool,
}

struct Gap {
    bytes: Range<u64>,
    since: Instant,
}

impl Gaps {
    pub fn new() -> Gaps {
        Gaps {
            files: Lock::new(HashMap::new()),
            count: AtomicUsize::new(0),
        }
    }

    /// A write begins behind the size. Under `growth`, before the size changes: whoever sees the
    /// new size finds the gap.
    pub fn note(&self, ino: u64, bytes: Range<u64>) {
        let since = Instant::now();
        let mut files = self.files.lock();
        if files.len() >= MANY_FILES {
            files.retain(|_, file| file.first(GapWait::Kept).is_some());
        }
        let file = files.entry(ino).or_default();
        // Where the file was cut since, what lay behind the cut is no gap any more.
        file.gaps.retain(|gap| gap.bytes.start < bytes.start);
        file.gaps.push(Gap { bytes, since });
        if file.gaps.len() > REMEMBERED {
            file.gaps.remove(0);
        }
        file.is_flushed = false;
        // Release: partner of the load in `has_any`.
        self.count.store(files.len(), Release);
        drop(files);
        // Release: the size is stored behind it; partner is the fence in `has_any`.
        fence(Release);
    }

    /// Bytes of a file were written. After they can be found.
    pub fn fill(&self, ino: u64, written: &Range<u64>) {
        if !self.has_any() {
            return;
        }
        let mut files = self.files.lock();
        if let Some(file) = files.get_mut(&ino) {
            file.fill(written);
            if file.gaps.is_empty() {
                files.remove(&ino);
            }
            // Release: see `note`.
            self.count.store(files.len(), Release);
        }
    }

    /// A file has ended. Its number is not yet given to another one.
    pub fn forget(&self, ino: u64) {
        self.fill(ino, &(0..u64::MAX));
    }

    /// The kernel has written all that it kept of a file when it sent this.
    pub fn note_flushed(&self, ino: u64) {
        if self.has_any()
            && let Some(file) = self.files.lock().get_mut(&ino)
        {
            file.is_flushed = true;
        }
    }

    /// For a sync of a file, or of all: returns when the gaps that there are now are filled, or so
    /// old that they are holes. What was written before this call lies before every later gap.
    pub fn settle(&self, ino: Option<u64>) -> GapWait {
        let begun = Instant::now();
        // A model checker has no clock.
        while self.is_in_flight(ino, begun) && !cfg!(feature = "shuttle") {
            thread::sleep(LOOK);
        }
        GapWait::Since(begun)
    }

    fn is_in_flight(&self, ino: Option<u64>, begun: Instant) -> bool {
        if !self.has_any() || begun.elapsed() >= SHORT {
            return false;
        }
        let files = self.files.lock();
        let is_young = |gap: &Gap| gap.since <= begun && gap.since.elapsed() < SHORT;
        let is_open = |file: &FileGaps| file.gaps.iter().any(is_young);
        match ino {
            Some(ino) => files.get(&ino).is_some_and(is_open),
            None => files.values().any(is_open),
        }
    }

    /// Where the first gap of a file begins that is waited for. The caller has read the size
    /// before.
    pub fn first(&self, ino: u64, wait: GapWait) -> Option<u64> {
        if !self.has_any() {
            return None;
        }
        let files = self.files.lock();
        files.get(&ino)?.first(wait)
    }

    /// Whether some file may have gaps. The caller has read a size, or has been told that
    /// something was written.
    fn has_any(&self) -> bool {
        // Acquire: the size was loaded before it; partner of the fence in `note`.
        fence(Acquire);
        // Acquire: what was written before a gap was filled is found from here on.
        self.count.load(Acquire) > 0
    }
}

impl FileGaps {
    fn first(&self, wait: GapWait) -> Option<u64> {
        let is_open = |gap: &&Gap| match wait {
            GapWait::Since(begun) => gap.since > begun,
            _ if self.is_flushed => gap.since.elapsed() < SHORT,
            GapWait::InFlight => gap.since.elapsed() < IN_FLIGHT,
            GapWait::Kept => gap.since.elapsed() < LATEST,
        };
        let open = self.gaps.iter().filter(is_open);
        open.map(|gap| gap.bytes.start).min()
    }

    fn fill(&mut self, written: &Range<u64>) {
        let mut left = Vec::with_capacity(self.gaps.len() + 1);
        for gap in self.gaps.drain(..) {
            let Range { start, end } = gap.bytes;
            let parts = [start..end.min(written.start), start.max(written.end)..end];
            let since = gap.since;
            let parts = parts.into_iter().filter(|part| part.start < part.end);
            left.extend(parts.map(|bytes| Gap { bytes, since }));
        }
        self.gaps = left;
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    #[test]
    fn a_gap_ends_when_all_of_it_was_written_in_whatever_parts() {
        let gaps = Gaps::new();
        gaps.note(7, 100..400);
        assert_eq!(gaps.first(7, GapWait::Kept), Some(100));
        assert_eq!(gaps.first(8, GapWait::Kept), None);
        gaps.fill(7, &(200..300));
        assert_eq!(gaps.first(7, GapWait::Kept), Some(100));
        gaps.fill(7, &(0..200));
        assert_eq!(gaps.first(7, GapWait::Kept), Some(300));
        gaps.fill(7, &(300..500));
        assert_eq!(gaps.first(7, GapWait::Kept), None);
        assert!(!gaps.has_any());
    }

    #[test]
    fn who_knows_that_nothing_comes_waits_for_no_gap() {
        let gaps = Gaps::new();
        gaps.note(7, 100..400);
        assert_eq!(gaps.first(7, GapWait::InFlight), Some(100));
        let synced = gaps.settle(Some(7));
        assert_eq!(gaps.first(7, synced), None);
        assert_eq!(gaps.first(7, GapWait::InFlight), Some(100));
        gaps.note_flushed(7);
        assert_eq!(gaps.first(7, GapWait::Kept), None);
        // The kernel keeps pages again.
        gaps.note(7, 600..800);
        assert_eq!(gaps.first(7, synced), Some(600));
        assert_eq!(gaps.first(7, GapWait::Kept), Some(100));
    }

    #[test]
    fn a_gap_behind_a_cut_is_forgotten() {
        let gaps = Gaps::new();
        gaps.note(7, 100..400);
        gaps.note(7, 50..60);
        gaps.fill(7, &(50..60));
        assert_eq!(gaps.first(7, GapWait::Kept), None);
    }

    #[test]
    fn the_gaps_of_many_files_and_of_one_are_bounded() {
        let gaps = Gaps::new();
        for n in 0..2 * REMEMBERED as u64 {
            gaps.note(7, 2 * n..2 * n + 1);
        }
        assert_eq!(gaps.files.lock()[&7].gaps.len(), REMEMBERED);
        for ino in 0..MANY_FILES as u64 {
            gaps.note(ino, 0..1);
            gaps.note_flushed(ino);
        }
        gaps.settle(None);
        gaps.note(MANY_FILES as u64, 0..1);
        assert_eq!(gaps.files.lock().len(), 1);
    }
}
