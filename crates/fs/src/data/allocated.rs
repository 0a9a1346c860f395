//! Files that come from a backend: which of their pages it has.

use std::ops::Range;

use hearth_sync::epoch::{Guard, pin};

use super::leaf::{Absence, Leaf};
use super::resident::Resident;
use super::root::Data;
use super::slot_state::SlotState;
use super::slots::FAN;
use super::span::PAGES;

/// Pages that get their states under one guard: a cut waits for it.
const PART: u64 = FAN << 12;

/// Leaves with allocated and other pages that come into memory with the file. Of more, the backend
/// is asked one by one, when they are used.
const LEAVES: u64 = 64;

impl Data {
    /// Data of which exactly the pages in `held`, by rising index, are allocated; where true, the
    /// backend has content for them, and else they were never written. Counts are exact, holes need
    /// no question, and only pages with content are [`PageMiss`](super::PageMiss), or those of a
    /// sparse file of which only the count is kept. Returns what the nodes take, too.
    ///
    /// A large file takes long. So a caller that is not pinned is pinned for a part at a time only:
    /// no cut waits for all of it.
    pub fn allocated(held: impl IntoIterator<Item = (Range<u64>, bool)>) -> (Data, Resident) {
        let data = Data::new();
        let mut came = Resident::default();
        for (pages, is_written) in held {
            let mut next = pages.start;
            while next < pages.end {
                let end = pages.end.min((next / PART + 1) * PART);
                data.hold(next..end, is_written, &mut came.nodes, &pin());
                next = end;
            }
        }
        (data, came)
    }

    /// Notes pages that the backend has. No other thread uses this data yet.
    fn hold(&self, pages: Range<u64>, is_written: bool, made: &mut u64, g: &Guard) {
        self.status.set_partial();
        let state = state_of(is_written);
        let mut next = pages.start;
        while next < pages.end {
            let base = next / FAN * FAN;
            let part = next..pages.end.min(base + FAN);
            next = part.end;
            if base > 0 {
                self.hold_far(base, part, state, made, g);
                continue;
            }
            if part.start == 0 {
                self.slot(0, g).inspect(|slot| slot.state.set(state));
            }
            if part.end > 1 {
                let near = self.grow_near(made, g);
                near.fill_states(part.start.max(1)..part.end, state);
            }
        }
    }

    /// [`Data::hold`] of the pages `part` of the leaf that begins at `base`.
    fn hold_far(&self, base: u64, part: Range<u64>, state: SlotState, made: &mut u64, g: &Guard) {
        let count = part.end - part.start;
        let (slot, absence) = self.grow_far(g).grow_slot(base, made, g);
        if slot.is_empty() {
            let left = match (absence.get(), state) {
                (Absence::Hole, SlotState::AtBackend) if count == FAN => Some(Absence::Full),
                (Absence::Hole, _) if *made < LEAVES => None,
                (before, _) => {
                    let has_data = before.has_data() || state == SlotState::AtBackend;
                    Some(Absence::partly(before.count() + count, has_data))
                }
            };
            if let Some(left) = left {
                absence.set(left);
                return;
            }
        }
        let leaf = self.grow_far(g).grow(base, made, g);
        leaf.fill_states(part.start - base..part.end - base, state);
    }

    /// Takes what the backend has told of the pages `leaf`, which were unknown
    /// ([`Data::unknown_leaf`]): those in `held`, by rising index, are allocated, and where true
    /// written. Does nothing if the leaf came meanwhile. Returns what came into memory. Inside the
    /// gate since before the backend was asked.
    pub fn load_leaf(&self, leaf: Range<u64>, held: &[(Range<u64>, bool)], g: &Guard) -> Resident {
        let new = Leaf::of(SlotState::Unset);
        for (pages, is_written) in held {
            let part = pages.start.max(leaf.start)..pages.end.min(leaf.end);
            if part.start < part.end {
                let places = part.start - leaf.start..part.end - leaf.start;
                new.fill_states(places, state_of(*is_written));
            }
        }
        new.set_new();
        let mut came = Resident::default();
        let (slot, _) = self.grow_far(g).grow_slot(leaf.start, &mut came.nodes, g);
        came.nodes += u64::from(slot.install(new, g).is_ok());
        came
    }

    /// The allocation of this file, of which the backend has everything, with nothing of it in
    /// memory. Returns what the nodes take, too.
    pub fn at_backend(&self, g: &Guard) -> (Data, Resident) {
        let data = Data::new();
        let mut came = Resident::default();
        let near = self
            .walk(0..FAN, g)
            .filter(|(_, slot)| slot.is_allocated(g));
        for (index, slot) in near {
            data.hold(index..index + 1, slot.is_written(g), &mut came.nodes, g);
        }
        let mut hold = |base, absence| {
            let (_, cell) = data.grow_far(g).grow_slot(base, &mut came.nodes, g);
            cell.set(absence);
            data.status.set_partial();
        };
        let mut next = FAN;
        while let Some((base, leaf)) = self.far.load(g).and_then(|far| far.next_leaf(next, g)) {
            match leaf.at_backend(g) {
                Absence::Hole => {}
                absence => hold(base, absence),
            }
            next = base + FAN;
            if next >= PAGES {
                break;
            }
        }
        let _ = self.visit_absences(&(FAN..PAGES), g, &mut |base, absence| {
            hold(base, absence);
            std::ops::ControlFlow::Continue(())
        });
        (data, came)
    }

    /// The allocated pages, in ranges by rising index, and whether they were written.
    ///
    /// # Panics
    /// When only the backend knows.
    #[cfg(test)]
    pub fn allocation(&self, g: &Guard) -> Vec<(Range<u64>, bool)> {
        assert_eq!(self.check_known(&(0..PAGES), g), Ok(()));
        let slots = self.walk(0..PAGES, g);
        let known = slots.filter(|(_, slot)| slot.is_allocated(g));
        let known = known.map(|(index, slot)| (index..index + 1, slot.is_written(g)));
        let mut each: Vec<(Range<u64>, bool)> = known.collect();
        let _ = self.visit_absences(&(0..PAGES), g, &mut |base, _| {
            each.push((base..base + FAN, true));
            std::ops::ControlFlow::Continue(())
        });
        each.sort_by_key(|(pages, _)| pages.start);
        let mut all: Vec<(Range<u64>, bool)> = Vec::new();
        for (pages, is_written) in each {
            match all.last_mut() {
                Some((run, is)) if run.end == pages.start && *is == is_written => {
                    run.end = pages.end;
                }
                _ => all.push((pages, is_written)),
            }
        }
        all
    }
}

fn state_of(is_written: bool) -> SlotState {
    match is_written {
        true => SlotState::AtBackend,
        false => SlotState::Unwritten,
    }
}
