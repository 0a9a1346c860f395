//! Pauses between merges that fail. A table that is damaged fails each merge that reads it, and a
//! disk without room each that writes: the engine is opened again behind one, and would begin the
//! next at once.

use crate::error::Error;
use hearth_sync::primitive::Mutex;
use std::time::{Duration, Instant};

/// The pause behind the first of some failed merges in a row. Each one is twice as long as the one
/// before.
const FIRST: Duration = Duration::from_secs(1);
/// The longest one where there was no room: that comes back as soon as somebody removes a file.
const FULL_MOST: Duration = Duration::from_secs(8);
/// The longest one otherwise: all tables of a keyspace were read to find the damaged one.
const DAMAGED_MOST: Duration = Duration::from_secs(64);

/// When each keyspace may be merged again. It outlives the openings of its engine.
#[derive(Default)]
pub(super) struct MergeRests([Mutex<Rest>; 2]);

#[derive(Default)]
struct Rest {
    until: Option<Instant>,
    /// Merges in a row that failed.
    failed: u32,
}

impl MergeRests {
    /// Until when `keyspace` is not merged, if that is not yet over.
    pub(super) fn until(&self, keyspace: usize) -> Option<Instant> {
        let until = self.0[keyspace].lock().until;
        until.filter(|until| *until > Instant::now())
    }

    /// Takes note of how a merge of `keyspace` ended.
    pub(super) fn note(&self, keyspace: usize, failed: Option<&Error>) {
        let mut rest = self.0[keyspace].lock();
        let Some(error) = failed else {
            *rest = Rest::default();
            return;
        };
        let most = match error.is_passing() {
            true => FULL_MOST,
            false => DAMAGED_MOST,
        };
        let pause = FIRST * (1 << rest.failed.min(6));
        rest.until = Some(Instant::now() + pause.min(most));
        rest.failed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_merge_in_a_row_keeps_the_next_one_longer_from_beginning() {
        let rests = MergeRests::default();
        let damaged = Error::corrupt("a table", 0, "a block does not fit its checksum");
        let full = Error::NoSpace { what: "merge" };
        let pauses = |keyspace, error: &Error| {
            [(); 8].map(|()| {
                let before = Instant::now();
                rests.note(keyspace, Some(error));
                (rests.until(keyspace).unwrap() - before).as_secs()
            })
        };
        assert_eq!(pauses(0, &damaged), [1, 2, 4, 8, 16, 32, 64, 64]);
        assert_eq!(pauses(1, &full), [1, 2, 4, 8, 8, 8, 8, 8]);
        rests.note(1, None);
        assert!(rests.until(1).is_none());
        assert!(rests.until(0).is_some(), "of another keyspace");
        assert_eq!(pauses(1, &full)[0], 1);
    }
}
