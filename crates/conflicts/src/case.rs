//! A pair of operations in one state.

use super::operation::{Dir, Name, Operation, Place, Slot};
use super::verb::Verb;
use std::fmt;

/// Repetitions in a long window, which shows costs that are paid only now and then.
pub const LONG: usize = 256;

/// What the two sides share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sharing {
    /// Two threads of one process, whose descriptors are handed out per core.
    Threads,
    /// Two processes that share nothing.
    Processes,
    /// A process and its child, which share open files.
    Kin,
}

/// A pair of operations in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Case {
    /// The call of each side.
    pub sides: [Operation; 2],
    /// What the sides share.
    pub sharing: Sharing,
    /// Mounted with `noatime`: the pair commutes only then.
    pub is_noatime: bool,
}

/// A descriptor that is open when a case begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The file.
    pub place: Place,
    /// Which of its descriptors.
    pub slot: Slot,
    /// Writes go to the end.
    pub appends: bool,
    /// The page of its offset.
    pub page: u8,
    /// Each repetition has a descriptor of its own.
    pub is_many: bool,
}

impl Case {
    fn same_open_file(&self, a: (Place, Slot), b: (Place, Slot)) -> bool {
        let is_one = |slot| matches!(slot, Slot::First | Slot::Twin);
        let shares = match self.sharing {
            Sharing::Threads | Sharing::Kin => is_one(a.1) && is_one(b.1) || a.1 == b.1,
            Sharing::Processes => false,
        };
        a.0 == b.0 && shares
    }

    /// Returns the case as numbers, for another program.
    pub fn code(&self) -> Vec<u8> {
        let mut code = vec![self.sharing as u8, u8::from(self.is_noatime)];
        self.sides.iter().for_each(|op| code.extend(op.code()));
        code
    }

    /// Returns the case of such numbers.
    pub fn of_code(code: &[u8]) -> Option<Case> {
        let (head, rest) = code.split_at_checked(2)?;
        let (first, second) = rest.split_at_checked(Operation::CODE)?;
        Some(Case {
            sides: [Operation::of_code(first)?, Operation::of_code(second)?],
            sharing: *Sharing::ALL.get(usize::from(head[0]))?,
            is_noatime: head[1] != 0,
        })
    }

    /// Returns whether both sides use one open file.
    pub fn shares_open_file(&self) -> bool {
        let [a, b] = self.sides.map(|op| op.descriptor());
        // A child has its parent's open files; the threads of the parent are the two sides.
        let has_child = self.sharing == Sharing::Threads
            && self
                .sides
                .iter()
                .any(|op| op.verb == Verb::Exit && op.choice == 1)
            && (a.is_some() || b.is_some());
        has_child || a.zip(b).is_some_and(|(a, b)| self.same_open_file(a, b))
    }

    /// Returns whether the state that the two calls need can exist, and no simpler state serves.
    pub fn is_sound(&self) -> bool {
        let [a, b] = self.sides;
        let (first, second) = (a.descriptor(), b.descriptor());
        if b.slot != Slot::First && self.sharing != Sharing::Threads {
            return false;
        }
        let Some((first, second)) = first.zip(second) else {
            return self.sharing != Sharing::Kin;
        };
        if !self.same_open_file(first, second) {
            return self.sharing != Sharing::Kin;
        }
        // One offset is at one page, and one open file either appends or does not.
        let offsets = a.verb.has_offset() && b.verb.has_offset() && a.choice != b.choice;
        let modes = matches!(
            (a.verb, b.verb),
            (Verb::Append, Verb::Write) | (Verb::Write, Verb::Append)
        );
        !offsets && !modes
    }

    /// Returns the descriptors that a side needs and opens itself; the other side may use them too.
    pub fn opens(&self) -> [Vec<Open>; 2] {
        let mut lists = [Vec::new(), Vec::new()];
        for (side, op) in self.sides.iter().enumerate() {
            if let Some((place, slot)) = op.descriptor() {
                self.need(&mut lists, side, op, place, slot);
            }
            if let (Verb::Dup2, Some(to)) = (op.verb, op.to) {
                self.need(&mut lists, side, op, to, Slot::First);
            }
        }
        lists
    }

    fn need(
        &self,
        lists: &mut [Vec<Open>; 2],
        side: usize,
        op: &Operation,
        place: Place,
        slot: Slot,
    ) {
        let is_own = self.sharing == Sharing::Processes;
        let known = |list: &Vec<Open>, slot| {
            list.iter()
                .position(|open| open.place == place && open.slot == slot)
        };
        if slot == Slot::Twin && known(&lists[0], Slot::First).is_none() {
            self.need(lists, 0, op, place, Slot::First);
        }
        let found = (0..=side)
            .filter(|&other| !is_own || other == side)
            .find_map(|other| known(&lists[other], slot).map(|at| (other, at)));
        let (list, at) = found.unwrap_or_else(|| {
            // Kin: the parent opens all of them before the fork.
            let list = if self.sharing == Sharing::Kin {
                0
            } else {
                side
            };
            let open = Open {
                place,
                slot,
                appends: false,
                page: 0,
                is_many: false,
            };
            lists[list].push(open);
            (list, lists[list].len() - 1)
        });
        let uses_it = op.descriptor() == Some((place, slot));
        let open = &mut lists[list][at];
        open.appends |= uses_it && op.verb == Verb::Append;
        open.is_many |= uses_it && op.varies_descriptor();
        if uses_it && op.verb.has_offset() {
            open.page = op.choice;
        }
        if slot == Slot::Twin {
            // Flags and offset belong to the open file.
            let (appends, page) = (open.appends, open.page);
            if let Some(first) = known(&lists[0], Slot::First) {
                let first = &mut lists[0][first];
                first.appends |= appends;
                first.page = first.page.max(page);
            }
        }
    }

    /// Returns the directories that must exist, parents first.
    pub fn dirs(&self) -> Vec<Dir> {
        let mut needed = [true, false, false, false];
        for place in self
            .sides
            .iter()
            .flat_map(|op| op.places().collect::<Vec<_>>())
        {
            let sub = match (place.dir, place.name) {
                (Dir::First, Name::Sub) => Some(Dir::FirstSub),
                (Dir::Second, Name::Sub) => Some(Dir::SecondSub),
                _ => None,
            };
            let dirs = [Some(place.dir), place.dir.above(), sub];
            dirs.into_iter()
                .flatten()
                .for_each(|dir| needed[dir as usize] = true);
        }
        Dir::ALL
            .into_iter()
            .filter(|&dir| needed[dir as usize])
            .collect()
    }

    /// Returns the places whose names each repetition needs anew, of both sides.
    pub fn varying(&self) -> Vec<Place> {
        let mut found = Vec::new();
        for op in &self.sides {
            let on = op.varies_on().then_some(op.on);
            let to = op.to.filter(|_| op.varies_to());
            found.extend([on, to].into_iter().flatten());
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns how many lines both sides may touch in a window that still counts as free: none in a
    /// window of one call, and in a long one what reclamation costs now and then.
    pub fn budget(&self, window: usize) -> usize {
        match window {
            1 => 0,
            _ if self.sides.iter().all(|op| op.verb.only_reads()) => 4,
            _ => 16,
        }
    }
}

impl Sharing {
    /// All kinds.
    pub const ALL: [Sharing; 3] = [Sharing::Threads, Sharing::Processes, Sharing::Kin];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Threads => "threads",
            Sharing::Processes => "processes",
            Sharing::Kin => "kin",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.sides;
        write!(f, "{a} | {b}, {}", self.sharing.name())?;
        if self.is_noatime {
            write!(f, ", noatime")?;
        }
        Ok(())
    }
}
