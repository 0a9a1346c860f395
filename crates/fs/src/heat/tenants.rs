//! Heat of tenants: sums over the files of users, groups and projects.

use super::foreign::ForeignFacts;
use super::place::{GROUPS, group_of_number};
use super::record::KnownHeat;
use super::score::{Counts, HalfLifeChange, HalfLives, Millis, Score};
use crate::inode::Fields;
use std::collections::{BTreeMap, HashMap};

/// Most sums that are kept; the coldest go first. There may be more during a drain.
const MOST: usize = 8_192;
/// Bytes of an entry of the table.
const PLACE_BYTES: usize = size_of::<(HeatTenant, TenantSum)>() + 1;

/// An owner of files: user, group or project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeatTenant {
    /// User id.
    User(u32),
    /// Group id.
    Group(u32),
    /// Project id.
    Project(u32),
}

impl HeatTenant {
    /// Kind and id as numbers.
    pub(super) fn parts(self) -> (u64, u32) {
        match self {
            HeatTenant::User(id) => (0, id),
            HeatTenant::Group(id) => (1, id),
            HeatTenant::Project(id) => (2, id),
        }
    }

    /// The tenant of [`HeatTenant::parts`].
    pub(super) fn of_parts(kind: u64, id: u32) -> Option<HeatTenant> {
        match kind {
            0 => Some(HeatTenant::User(id)),
            1 => Some(HeatTenant::Group(id)),
            2 => Some(HeatTenant::Project(id)),
            _ => None,
        }
    }

    /// The bit of the group with which it is kept.
    fn group(self) -> u64 {
        let (kind, id) = self.parts();
        1 << group_of_number(kind << 32 | u64::from(id))
    }
}

/// The three tenants of one file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileTenants([HeatTenant; 3]);

impl FileTenants {
    pub fn of(fields: &Fields) -> FileTenants {
        FileTenants([
            HeatTenant::User(fields.uid),
            HeatTenant::Group(fields.gid),
            HeatTenant::Project(fields.project),
        ])
    }

    pub fn of_facts(facts: &ForeignFacts) -> FileTenants {
        FileTenants([
            HeatTenant::User(facts.uid),
            HeatTenant::Group(facts.gid),
            HeatTenant::Project(facts.project),
        ])
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct TenantSum {
    pub total: Counts,
    pub score: Score,
    pub last_read: Option<Millis>,
    pub last_write: Option<Millis>,
}

impl TenantSum {
    fn known(&self) -> KnownHeat {
        KnownHeat {
            total: self.total,
            loads: 0,
            last_read: self.last_read,
            last_write: self.last_write,
            score: self.score,
        }
    }
}

/// Counts of one drain by owners.
pub(super) struct TenantCounts {
    /// Counts of the last owners: neighbouring files mostly have the same.
    last: Option<(FileTenants, Counts)>,
    others: HashMap<FileTenants, Counts>,
}

impl TenantCounts {
    pub fn new() -> TenantCounts {
        TenantCounts {
            last: None,
            others: HashMap::new(),
        }
    }

    pub fn add(&mut self, owners: FileTenants, counts: &Counts) {
        match &mut self.last {
            Some((last, sum)) if *last == owners => sum.add(counts),
            _ => {
                self.put_away();
                self.last = Some((owners, *counts));
            }
        }
    }

    fn put_away(&mut self) {
        if let Some((owners, counts)) = self.last.take() {
            self.others.entry(owners).or_default().add(&counts);
        }
    }
}

/// TenantCounts of the tenants that have been seen, [`MOST`] at most. Not synchronised.
#[derive(Default)]
pub(super) struct TenantTable {
    sums: HashMap<HeatTenant, TenantSum>,
    /// Groups with a sum that changed since they were kept, as bits.
    changed: u64,
}

impl TenantTable {
    pub fn touch(&mut self, mut owners: TenantCounts, now: Millis, lives: &HalfLives) {
        owners.put_away();
        for (owners, counts) in &owners.others {
            for tenant in owners.0 {
                self.changed |= tenant.group();
                let sum = self.sums.entry(tenant).or_default();
                sum.total.add(counts);
                sum.score.touch(counts, now, lives);
                if counts.reads > 0 {
                    sum.last_read = Some(now);
                }
                if counts.writes > 0 {
                    sum.last_write = Some(now);
                }
            }
        }
        if self.sums.len() > MOST {
            self.keep_hottest(MOST - MOST / 8, now, lives);
        }
    }

    /// Keeps the `kept` hottest sums. An eighth goes at once, so that not every drain with a new
    /// tenant sorts them all.
    fn keep_hottest(&mut self, kept: usize, now: Millis, lives: &HalfLives) {
        // By the long count: every active tenant has the highest temperature.
        let count = |sum: &TenantSum| sum.score.at(now, lives).long.accesses();
        let mut counts: Vec<(f64, HeatTenant)> = self
            .sums
            .iter()
            .map(|(&tenant, sum)| (count(sum), tenant))
            .collect();
        let order =
            |a: &(f64, HeatTenant), b: &(f64, HeatTenant)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        counts.select_nth_unstable_by(kept, order);
        for (_, tenant) in &counts[kept..] {
            self.changed |= tenant.group();
            self.sums.remove(tenant);
        }
    }

    /// Bytes that the table takes.
    pub fn bytes(&self) -> u64 {
        (self.sums.capacity() * PLACE_BYTES) as u64
    }

    /// Puts back a sum as it is kept.
    pub fn restore(&mut self, tenant: HeatTenant, known: &KnownHeat) {
        let sum = TenantSum {
            total: known.total,
            score: known.score,
            last_read: known.last_read,
            last_write: known.last_write,
        };
        self.sums.insert(tenant, sum);
    }

    /// Every group counts as changed.
    pub fn mark_all_changed(&mut self) {
        self.changed = u64::MAX;
    }

    /// The groups that changed since this was last called, with all that is in them.
    pub fn take_changed(&mut self) -> BTreeMap<u32, Vec<(HeatTenant, KnownHeat)>> {
        let changed = std::mem::take(&mut self.changed);
        let groups = (0..GROUPS).filter(|group| changed & 1 << group != 0);
        let mut groups: BTreeMap<_, _> = groups.map(|group| (group, Vec::new())).collect();
        if changed == 0 {
            return groups;
        }
        for (&tenant, sum) in &self.sums {
            if let Some(group) = groups.get_mut(&tenant.group().trailing_zeros()) {
                group.push((tenant, sum.known()));
            }
        }
        groups
    }

    /// Applies a change of half-lives.
    pub fn rescale(&mut self, change: &HalfLifeChange) {
        for sum in self.sums.values_mut() {
            sum.score.rescale(change);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (HeatTenant, &TenantSum)> {
        self.sums.iter().map(|(&tenant, sum)| (tenant, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drain in which each of these users has read so often.
    fn drain(tenants: &mut TenantTable, users: impl Iterator<Item = (u32, u64)>, now: Millis) {
        let mut sums = TenantCounts::new();
        for (user, reads) in users {
            let owners = [
                HeatTenant::User(user),
                HeatTenant::Group(0),
                HeatTenant::Project(0),
            ];
            let counts = Counts {
                reads,
                ..Counts::default()
            };
            sums.add(FileTenants(owners), &counts);
        }
        tenants.touch(sums, now, &HalfLives::from_millis(3_600_000, 86_400_000));
    }

    #[test]
    fn the_coldest_tenants_go_when_there_are_too_many_and_come_back_empty() {
        let mut tenants = TenantTable::default();
        let users = MOST as u32;
        drain(&mut tenants, (0..100).map(|user| (user, 50)), 0);
        // More than the first by number, less by now: theirs halve in a day.
        let day = 86_400_000;
        drain(&mut tenants, (100..200).map(|user| (user, 30)), day);
        drain(&mut tenants, (200..users - 2).map(|user| (user, 26)), day);
        assert_eq!(tenants.sums.len(), MOST, "with the group and the project");
        drain(&mut tenants, std::iter::once((users, 1)), day);
        assert_eq!(tenants.sums.len(), MOST - MOST / 8);
        let reads =
            |tenants: &TenantTable, tenant| tenants.sums.get(&tenant).map(|sum| sum.total.reads);
        let all = 100 * 50 + 100 * 30 + u64::from(users - 202) * 26 + 1;
        assert_eq!(reads(&tenants, HeatTenant::Group(0)), Some(all));
        for user in (0..100).chain([users]) {
            assert_eq!(reads(&tenants, HeatTenant::User(user)), None, "{user}");
        }
        for user in 100..200 {
            assert_eq!(reads(&tenants, HeatTenant::User(user)), Some(30), "{user}");
        }
        drain(&mut tenants, std::iter::once((0, 2)), day);
        assert_eq!(reads(&tenants, HeatTenant::User(0)), Some(2));
    }
}
