//! Idle work, a small piece at each call.
//!
//! | work | when |
//! |---|---|
//! | extents of large files that ended | there are any |
//! | segments that nobody names, of an opening before | once |
//! | pages that were stored and never named | an hour has passed |
//! | segments that were given up | a checkpoint has passed |
//! | inline data moves to segments | enough of it has come |
//! | segments with few live pages are rewritten | pages have died |
//! | those with more of them | none has died for a time |
//! | tables with many keys that are gone are merged | a time has passed |
//!
//! Each piece is a commit of its own. What it changes is compared under the lock of commits with
//! what it has read before: what the volume has changed meanwhile stays as the volume wants it.

use super::StoreBackend;
use super::commit::State;
use super::load::each;
use super::pending::PATIENCE;
use crate::engine::Compacted;
use crate::error::Result;
use crate::kv::Table;
use crate::memory::MemoryParts;
use crate::merge::{Tally, drop_map, meta};
use crate::schema::{Segment, key};
use hearth_backend::{Backend, Errno};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The pieces, in the order in which they are tried, and what is said when one fails.
const PIECES: [(&str, Work); 7] = [
    (
        "extents of files that ended stay for now",
        StoreBackend::delete_dying,
    ),
    ("segments of a crash stay for now", StoreBackend::sweep),
    ("pages that were never named stay for now", |store, _| {
        store.forget()
    }),
    ("dead segments stay for now", StoreBackend::delete_doomed),
    ("inline data stays in the log for now", |store, _| {
        store.move_inline()
    }),
    ("a segment was not collected", StoreBackend::collect),
    (
        "keys that are gone keep their room for now",
        StoreBackend::compact,
    ),
];

type Work = fn(&StoreBackend, &mut Tidying) -> Result<bool>;

/// How many times as long tables are left alone where merging them has won nothing, or failed.
const NO_GAIN_FACTOR: u32 = 60;
/// Extents that are deleted at once.
const PIECE: usize = 4096;

/// When idle work is worth it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of inline data that are moved together, at least.
    pub inline_bytes: u64,
    /// Per cent of live pages below which a segment is rewritten.
    pub live_percent: u64,
    /// Per cent of live pages when room is low.
    pub live_percent_low_room: u64,
    /// Per cent of live pages when nothing has died for a time.
    pub live_percent_quiet: u64,
    /// That time.
    pub quiet: Duration,
    /// Pages below which a segment is small: many small ones are rewritten together.
    pub small_pages: u64,
    /// How many are many.
    pub small_segments: usize,
    /// Bytes of data that are moved at once, about.
    pub piece: u64,
    /// How long a volume may take to name what it has stored.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            inline_bytes: 256 << 10,
            live_percent: 50,
            live_percent_low_room: 90,
            live_percent_quiet: 80,
            quiet: Duration::from_secs(10),
            small_pages: 512,
            small_segments: 64,
            piece: MemoryParts::default().work,
            patience: PATIENCE,
        }
    }
}

/// A look at the engine's tables.
#[derive(Debug)]
struct TablesSeen {
    /// Epoch of the last commit then.
    epoch: u64,
    /// When the next look is due.
    next: Instant,
    /// Whether everything up to that epoch was in the tables.
    is_all: bool,
}

/// How far idle work got.
#[derive(Debug)]
pub(super) struct Tidying {
    /// The map that is being deleted, and from which page on there is something left.
    dying: Option<(u64, u64)>,
    /// Segments from here on are of this opening; `None` when older ones were looked at.
    sweep_below: Option<u64>,
    /// Segments that no record names any more.
    doomed: BTreeSet<u64>,
    /// When the doomed ones may go: a checkpoint has been, and writes before this number are over,
    /// so many times one after the other.
    grace: Option<(u64, u8)>,
    /// `State::deaths` when segments were last looked at and none was worth it.
    pub(super) deaths: u64,
    /// Since when nothing is worth it that would be at any time.
    pub(super) quiet_since: Option<Instant>,
    /// Whether nothing is worth it in quiet times either.
    pub(super) is_tidy: bool,
    /// When the tables were looked at for keys that are gone.
    tables: Option<TablesSeen>,
    /// Segments that could not be emptied, with their live pages.
    pub(super) resting: BTreeSet<(u64, u64)>,
}

impl Tidying {
    /// Segments from number `first` on are of this opening.
    pub(super) fn new(first: u64) -> Tidying {
        Tidying {
            dying: None,
            sweep_below: Some(first),
            doomed: BTreeSet::new(),
            grace: None,
            deaths: 0,
            quiet_since: None,
            is_tidy: false,
            tables: None,
            resting: BTreeSet::new(),
        }
    }
}

impl StoreBackend {
    /// A piece of idle work; true if there is more to do.
    pub(super) fn tidy_some(&self) -> bool {
        let Some(mut tidying) = self.tidying.try_lock() else {
            return true;
        };
        if self.is_read_only || self.state.lock().check().is_err() {
            return false;
        }
        // Where room is scarce each kind of work has its turn: one that always has more to do must
        // not keep dead space from coming back.
        let is_scarce = self.kv.room().is_some_and(is_scarce);
        let mut goes_on = false;
        for (what, piece) in PIECES {
            // What fails now may work later, and keeps no other work from being done.
            goes_on |= piece(self, &mut tidying).unwrap_or_else(|error| {
                // A scan keeps the engine, or a failed merge is looked into: both come to an end.
                if !matches!(error, crate::Error::Busy { .. }) {
                    self.troubles.failed(what, &error);
                }
                false
            });
            if goes_on && !is_scarce {
                break;
            }
        }
        goes_on
    }

    /// Deletes a piece of a map whose file has ended.
    fn delete_dying(&self, tidying: &mut Tidying) -> Result<bool> {
        if tidying.dying.is_none() {
            each(&*self.kv, Table::Meta, key::DYING, &mut |key, _| {
                tidying.dying = Some((key::number(key)?, 0));
                Ok(false)
            })?;
        }
        let Some((map, from)) = tidying.dying else {
            return Ok(false);
        };
        let mut state = self.state.lock();
        let mut tally = Tally::default();
        let dropped = drop_map(&*self.kv, map, from, PIECE, &mut tally)?;
        let mut ops = dropped.ops;
        state.strays += tally.finish(&*self.kv, &mut ops)?;
        if dropped.rest.is_none() {
            ops.push(meta(key::dying(map), None));
        }
        let counters = state.counters();
        state.apply(&*self.kv, counters, ops)?;
        state.deaths += 1;
        tidying.dying = dropped.rest.map(|rest| (map, rest));
        Ok(true)
    }

    /// Gives up segments of openings before that nothing names: a crash left them behind.
    fn sweep(&self, tidying: &mut Tidying) -> Result<bool> {
        let Some(below) = tidying.sweep_below else {
            return Ok(false);
        };
        if self.is_looked_at() {
            return Ok(false);
        }
        for segment in self.blocks.list()? {
            if segment < below && self.kv.get(Table::Meta, &key::segment(segment))?.is_none() {
                self.blocks.delete(segment)?;
            }
        }
        tidying.sweep_below = None;
        Ok(false)
    }

    /// Pages that the volume has stored and not named for long are dead pages of their segments.
    fn forget(&self) -> Result<bool> {
        let mut state = self.state.lock();
        // What is held may name them.
        if state.has_held() {
            return Ok(false);
        }
        let late = self.pending.give_up(self.limits.patience);
        if late.is_empty() {
            return Ok(false);
        }
        let given_up = self.commit_dead(&mut state, &late);
        if given_up.is_err() {
            for (segment, pages) in late {
                self.pending.add(segment, pages);
            }
        }
        given_up.map(|()| true)
    }

    /// Commits that pages of segments are dead that no record names.
    fn commit_dead(&self, state: &mut State, pages: &[(u64, u64)]) -> Result<()> {
        let mut tally = Tally::default();
        for &(segment, pages) in pages {
            tally.named(segment, pages);
        }
        let mut ops = Vec::new();
        tally.finish(&*self.kv, &mut ops)?;
        let counters = state.counters();
        state.apply(&*self.kv, counters, ops)?;
        state.deaths += 1;
        Ok(())
    }

    /// Gives up `segments`, none of which has a live or a pending page. Their files go when a
    /// checkpoint has passed: until then a log that is cut short may still lead to them.
    pub(super) fn doom(&self, tidying: &mut Tidying, segments: &[u64]) -> Result<()> {
        let mut state = self.state.lock();
        let mut ops = Vec::new();
        let mut dead = Vec::new();
        for segment in segments {
            let key = key::segment(*segment);
            let value = self.kv.get(Table::Meta, &key)?;
            let segment_now = value.map(|value| Segment::decode(&key, &value));
            // A commit may have come to name it since it was looked at.
            if matches!(segment_now, Some(Ok(Segment { live: 0, .. }))) {
                ops.push(meta(key, None));
                dead.push(*segment);
            }
        }
        let counters = state.counters();
        state.apply(&*self.kv, counters, ops)?;
        tidying.doomed.extend(dead);
        tidying.grace = None;
        Ok(())
    }

    /// Gives back the room of keys that are gone, now and then. What was deleted last lies in
    /// memory: it goes to the tables for this once nothing is committed any more, for a checkpoint
    /// behind each commit would be dear. Where nothing was won it rests for long: a key that was
    /// made and removed between two checkpoints is said to be gone, and was in no table.
    fn compact(&self, tidying: &mut Tidying) -> Result<bool> {
        if self.is_looked_at() {
            return Ok(false);
        }
        let (epoch, now) = (self.kv.epoch(), Instant::now());
        let seen = tidying.tables.get_or_insert(TablesSeen {
            epoch,
            next: now + self.limits.quiet,
            is_all: false,
        });
        let is_still = seen.epoch == epoch;
        if now < seen.next || (is_still && seen.is_all) {
            return Ok(false);
        }
        seen.next = now + self.limits.quiet;
        if is_still && let Err(error) = self.kv.checkpoint() {
            return match is_lack_of_room(&error) {
                true => Ok(false),
                false => Err(error),
            };
        }
        let free = self.room().map_or(u64::MAX, |(_, free)| free);
        let rest = now + self.limits.quiet * NO_GAIN_FACTOR;
        let compacted = self.kv.compact(free).inspect_err(|_| seen.next = rest)?;
        seen.is_all = is_still;
        seen.epoch = epoch;
        Ok(match compacted {
            Some(Compacted { before, after }) if after > before / 4 * 3 => {
                seen.next = rest;
                false
            }
            compacted => compacted.is_some(),
        })
    }

    /// Whether a dump or a check is under way beside this writer: it may read segments that were
    /// given up since it began. Where room is low theirs is needed more.
    fn is_looked_at(&self) -> bool {
        let is_low = self.kv.room().is_some_and(is_low);
        !is_low && self.kv.is_looked_at()
    }

    /// Removes the files of segments that were given up, once that is safe.
    fn delete_doomed(&self, tidying: &mut Tidying) -> Result<bool> {
        let unnamed = self.state.lock().take_unnamed();
        if !unnamed.is_empty() {
            tidying.doomed.extend(unnamed);
            tidying.grace = None;
        }
        if tidying.doomed.is_empty() {
            return Ok(false);
        }
        let Some((flight, graces)) = tidying.grace else {
            let flight = self.pending.next_flight();
            match self.kv.checkpoint() {
                // Their room is what it needs.
                Err(error) if !is_lack_of_room(&error) => return Err(error),
                _ => tidying.grace = Some((flight, 1)),
            }
            return Ok(true);
        };
        // A write that is under way may still bring pages to one of them, and a later write may
        // have joined its segment.
        if !self.pending.is_over(flight) {
            return Ok(false);
        }
        if graces < 2 {
            tidying.grace = Some((self.pending.next_flight(), graces + 1));
            return Ok(true);
        }
        if self.is_looked_at() {
            return Ok(false);
        }
        let state = self.state.lock();
        let mut kept = Vec::new();
        for segment in &tidying.doomed {
            let is_named = self.kv.get(Table::Meta, &key::segment(*segment))?.is_some();
            if is_named || !self.pending.is_settled(*segment) {
                kept.push(*segment);
            }
        }
        drop(state);
        // What came to be used again is collected again when it is dead again. Nothing else can
        // come to be used: no write that is under way knows of it.
        let mut failed = None;
        tidying.doomed.retain(|segment| {
            let deleted = match kept.contains(segment) {
                true => Ok(()),
                false => self.blocks.delete(*segment),
            };
            deleted.map_err(|error| failed = Some(error)).is_err()
        });
        match failed {
            None => {
                tidying.grace = None;
                Ok(true)
            }
            Some(error) => Err(error),
        }
    }
}

/// Free room, as one part in so many of all, below which room is scarce, and at which it is low.
const SCARCE: u64 = 5;
const LOW: u64 = 10;
/// Bytes that are never little for what waits for the end of a dump.
const LOW_BYTES: u64 = 4 << 30;

fn is_scarce((all, free): (u64, u64)) -> bool {
    free < all / SCARCE
}

/// Whether so little is free that what a dump beside the volume reads is not kept for it.
fn is_low((all, free): (u64, u64)) -> bool {
    free <= (all / LOW).min(LOW_BYTES)
}

impl Limits {
    /// Per cent of live pages below which a segment is rewritten now; `is_quiet`: nothing dies. It
    /// rises from where room is scarce to where it is low: then more is gained for each byte that
    /// is written before there is no room to write at all.
    pub(super) fn percent(&self, room: Option<(u64, u64)>, is_quiet: bool) -> u64 {
        let usual = match is_quiet {
            true => self.live_percent_quiet,
            false => self.live_percent,
        };
        let Some((all, free)) = room.filter(|room| is_scarce(*room)) else {
            return usual;
        };
        let (lack, span) = (all / SCARCE - free, all / SCARCE - all / LOW);
        let more = self.live_percent_low_room.saturating_sub(usual);
        usual + more * lack.min(span) / span.max(1)
    }
}

/// Whether an error says only that there is no room.
pub(super) fn is_lack_of_room(error: &crate::Error) -> bool {
    error.errno() == Errno::ENOSPC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_less_room_there_is_the_fuller_segments_are_rewritten() {
        let limits = Limits::default();
        let percent = |free| limits.percent(Some((1000, free)), false);
        let percents = [999, 200, 150, 100, 50, 0].map(percent);
        assert_eq!(percents, [50, 50, 70, 90, 90, 90]);
        assert_eq!(limits.percent(None, false), 50);
        assert_eq!(limits.percent(Some((0, 0)), false), 50);
        assert_eq!(limits.percent(None, true), limits.live_percent_quiet);
        assert_eq!(limits.percent(Some((1000, 0)), true), 90);
    }
}
