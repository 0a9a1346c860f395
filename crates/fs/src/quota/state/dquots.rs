//! Records by id ("dquots", as in Linux), and their accounts.

use crate::quota::kind::{QuotaId, QuotaKind, Resource};
use crate::quota::rules::IdSettings;
use crate::quota::usage::{Bounds, Usage};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The counters and settings of one id.
pub(crate) struct Dquot {
    pub who: QuotaId,
    /// Its own settings; where there are none, those of its kind hold.
    pub own: IdSettings,
    /// By resource.
    pub usages: [Usage; 2],
    /// Accounts that may have credit on some CPU, by resource.
    pub active: [BTreeSet<u32>; 2],
    /// Whether a limit of bytes other than the size of the volume is in force.
    limited: bool,
    /// Number of accounts that charge this record.
    pub accounts: usize,
}

impl Dquot {
    pub fn usage(&mut self, resource: Resource) -> &mut Usage {
        &mut self.usages[resource as usize]
    }

    /// When its grace periods end, by resource.
    pub fn grace_ends(&self) -> [Option<i64>; 2] {
        Resource::ALL.map(|resource| self.usages[resource as usize].deadline)
    }
}

/// All records. The index of a record does not change.
#[derive(Default)]
pub(crate) struct Dquots {
    slots: Vec<Option<Dquot>>,
    free: Vec<usize>,
    /// Records with a limit of bytes in force.
    limited: usize,
    /// Index by id, in order.
    by_id: BTreeMap<QuotaId, usize>,
}

impl Dquots {
    pub fn find(&self, who: QuotaId) -> Option<usize> {
        self.by_id.get(&who).copied()
    }

    /// The record of `who`, created with `bounds` if there is none.
    pub fn open(&mut self, who: QuotaId, bounds: impl Fn(Resource) -> Bounds) -> usize {
        if let Some(index) = self.find(who) {
            return index;
        }
        let blocks = bounds(Resource::Blocks);
        let usages = [Usage::new(blocks), Usage::new(bounds(Resource::Inodes))];
        let dquot = Dquot {
            who,
            limited: false,
            own: IdSettings::default(),
            usages,
            active: Default::default(),
            accounts: 0,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(dquot);
        self.by_id.insert(who, index);
        self.set_limited(index, blocks);
        index
    }

    /// Sets whether `bounds`, the limits of bytes in force, limit the record.
    pub fn set_limited(&mut self, index: usize, bounds: Bounds) {
        let dquot = &mut self[index];
        let is_limited = bounds.is_limit() && dquot.who.kind != QuotaKind::Volume;
        let was_limited = std::mem::replace(&mut dquot.limited, is_limited);
        self.limited = self.limited + usize::from(is_limited) - usize::from(was_limited);
    }

    /// Whether any record has a limit of bytes.
    pub fn are_limited(&self) -> bool {
        self.limited > 0
    }

    /// Removes a record that has neither accounts nor settings.
    pub fn close_if_idle(&mut self, index: usize) {
        let dquot = &self[index];
        let who = dquot.who;
        if dquot.accounts == 0 && dquot.own == IdSettings::default() && who != QuotaId::VOLUME {
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

    /// Ids that have a record, in order, after `after`.
    pub fn ids_after(&self, after: Option<QuotaId>) -> impl Iterator<Item = QuotaId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id
            .range((from, Bound::Unbounded))
            .map(|(&who, _)| who)
    }
}

impl std::ops::Index<usize> for Dquots {
    type Output = Dquot;
    fn index(&self, index: usize) -> &Dquot {
        self.slots[index].as_ref().expect(OPEN)
    }
}

impl std::ops::IndexMut<usize> for Dquots {
    fn index_mut(&mut self, index: usize) -> &mut Dquot {
        self.slots[index].as_mut().expect(OPEN)
    }
}

const OPEN: &str = "a dquot stays while an account or a setting needs it";
