//! Records by id, and which accounts they concern.

use crate::quota::kind::{QuotaId, QuotaKind, Resource};
use crate::quota::rules::Own;
use crate::quota::tally::{Bounds, Tally};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What is known of one id.
pub(crate) struct Record {
    pub who: QuotaId,
    /// Settings of its own; without them those of its kind hold.
    pub own: Own,
    /// By resource.
    pub tallies: [Tally; 2],
    /// Accounts that some core may have credit of, by resource.
    pub active: [BTreeSet<u32>; 2],
    /// Whether a limit of bytes is in force, other than the size of the volume.
    limited: bool,
    /// Accounts that it is a record of.
    pub accounts: usize,
}

impl Record {
    pub fn tally(&mut self, resource: Resource) -> &mut Tally {
        &mut self.tallies[resource as usize]
    }
}

/// All records. An index stays with its record.
#[derive(Default)]
pub(crate) struct Records {
    slots: Vec<Option<Record>>,
    free: Vec<usize>,
    /// Records with a limit of bytes in force.
    limited: usize,
    /// In order.
    by_id: BTreeMap<QuotaId, usize>,
}

impl Records {
    pub fn find(&self, who: QuotaId) -> Option<usize> {
        self.by_id.get(&who).copied()
    }

    /// The record of `who`, made now with `bounds` if there is none.
    pub fn open(&mut self, who: QuotaId, bounds: impl Fn(Resource) -> Bounds) -> usize {
        if let Some(index) = self.find(who) {
            return index;
        }
        let blocks = bounds(Resource::Blocks);
        let tallies = [Tally::new(blocks), Tally::new(bounds(Resource::Inodes))];
        let record = Record {
            who,
            limited: false,
            own: Own::default(),
            tallies,
            active: Default::default(),
            accounts: 0,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(record);
        self.by_id.insert(who, index);
        self.set_limited(index, blocks);
        index
    }

    /// Such bounds of bytes are in force for a record.
    pub fn set_limited(&mut self, index: usize, bounds: Bounds) {
        let record = &mut self[index];
        let is_limited = bounds.is_limit() && record.who.kind != QuotaKind::Volume;
        let was_limited = std::mem::replace(&mut record.limited, is_limited);
        self.limited = self.limited + usize::from(is_limited) - usize::from(was_limited);
    }

    /// Whether any record has a limit of bytes.
    pub fn are_limited(&self) -> bool {
        self.limited > 0
    }

    /// Forgets a record that has neither accounts nor settings.
    pub fn close_if_idle(&mut self, index: usize) {
        let record = &self[index];
        let who = record.who;
        if record.accounts == 0 && record.own == Own::default() && who != QuotaId::VOLUME {
            self.set_limited(index, Bounds::NONE);
            self.by_id.remove(&who);
            self.slots[index] = None;
            self.free.push(index);
        }
    }

    /// Indices of all records.
    pub fn indices(&self) -> Vec<usize> {
        self.by_id.values().copied().collect()
    }

    /// Ids that have a record, in order, after the one that is named.
    pub fn ids_after(&self, after: Option<QuotaId>) -> impl Iterator<Item = QuotaId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id
            .range((from, Bound::Unbounded))
            .map(|(&who, _)| who)
    }
}

impl std::ops::Index<usize> for Records {
    type Output = Record;
    fn index(&self, index: usize) -> &Record {
        self.slots[index].as_ref().expect(OPEN)
    }
}

impl std::ops::IndexMut<usize> for Records {
    fn index_mut(&mut self, index: usize) -> &mut Record {
        self.slots[index].as_mut().expect(OPEN)
    }
}

const OPEN: &str = "a record stays while an account or a setting needs it";
