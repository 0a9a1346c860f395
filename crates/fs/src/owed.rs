//! What tenants have changed and the backend has yet to get, and who must wait for that: see
//! "Back-pressure" in `docs/design/log.md`.

use hearth_backend::{Attrs, Inode, Xattr};
use hearth_sync::primitive::cores;
use std::collections::BTreeMap;

/// Most records of a core at which a commit is asked for, and the fewest.
const RECORDS: (u64, u64) = (256, 32 << 10);
/// Most unwritten bytes of a core at which a write-back is asked for, and the fewest.
const BYTES: (u64, u64) = (256 << 10, 64 << 20);
/// What an operation may keep in memory until it is committed, in bytes: its records, the changes
/// of keys that they become, and the frame of these.
const OPERATION: u64 = 3 << 10;
/// How often bytes that a record carries are in memory until then: in the record, in the changes of
/// keys, and in the frame.
pub(crate) const COPIES: u64 = 3;
/// Records of an operation, about.
const RECORDS_OF_ONE: u64 = 3;
/// A core may have this many times what it asks for a commit at.
const AHEAD: u64 = 4;
/// All that is unwritten is at most one part in this many of the memory budget.
const PART: u64 = 4;

/// LogBounds on what the backend has yet to get. Immutable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogBounds {
    /// Records of a core at which a commit is asked for: a power of two.
    pub records: usize,
    /// Unwritten bytes of a core at which a write-back is asked for: a power of two.
    pub bytes: u64,
    /// Bytes at which tenants wait who have more than their share.
    pub most: u64,
}

impl LogBounds {
    /// The bounds of a volume with a memory budget; 0 is none.
    pub fn of(budget: u64) -> LogBounds {
        let budget = if budget == 0 { u64::MAX } else { budget };
        let cores = cores() as u64;
        let each = budget / (PART * AHEAD * cores);
        let records = (each / OPERATION * RECORDS_OF_ONE).clamp(RECORDS.0, RECORDS.1);
        let bytes = 1 << each.clamp(BYTES.0, BYTES.1).ilog2();
        LogBounds {
            records: 1 << records.ilog2(),
            bytes,
            most: bytes * AHEAD * cores,
        }
    }

    /// Whether a count of records has just reached a multiple of [`LogBounds::records`].
    #[inline]
    pub fn asks_at(&self, records: usize) -> bool {
        records & (self.records - 1) == 0
    }

    /// Whether a count of bytes that was `before` has passed a multiple of [`LogBounds::bytes`].
    #[inline]
    pub fn asks_between(&self, before: u64, after: u64) -> bool {
        (before ^ after) >= self.bytes
    }

    /// What an operation counts for, in bytes: as much of the bound for bytes as its records are of
    /// the bound for records.
    pub fn operation(&self) -> u64 {
        self.bytes * RECORDS_OF_ONE / self.records as u64
    }
}

/// Bytes by tenant, for whom the scheduler has numbers. Most cores work for one tenant at a time.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    last: (u64, u64),
    others: BTreeMap<u64, u64>,
}

impl Owed {
    /// Adds `bytes` for a tenant.
    #[inline]
    pub fn add(&mut self, tenant: u64, bytes: u64) {
        if self.last.0 != tenant {
            self.switch_to(tenant);
        }
        self.last.1 += bytes;
    }

    #[cold]
    fn switch_to(&mut self, tenant: u64) {
        let (before, bytes) = self.last;
        if bytes > 0 {
            *self.others.entry(before).or_default() += bytes;
        }
        self.last = (tenant, self.others.remove(&tenant).unwrap_or(0));
    }

    /// Takes away bytes that were added for a tenant.
    pub fn take(&mut self, tenant: u64, bytes: u64) {
        self.add(tenant, 0);
        self.last.1 = self.last.1.saturating_sub(bytes);
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Owed) {
        for (tenant, bytes) in other.iter() {
            self.add(tenant, bytes);
        }
    }

    /// Bytes of all tenants.
    pub fn sum(&self) -> u64 {
        self.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Tenants with bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let others = self.others.iter();
        let all = others.map(|(tenant, bytes)| (*tenant, *bytes));
        all.chain([self.last]).filter(|(_, bytes)| *bytes > 0)
    }

    /// Tenants that wait while all together may have `most` bytes: those with more than their share
    /// of them, by weight, among the tenants that have any.
    pub fn pressure(&self, most: u64, weight: impl Fn(u64) -> u32) -> Pressure {
        let sum = self.sum();
        if sum <= most {
            return Pressure::None;
        }
        if sum > 2 * most {
            return Pressure::All;
        }
        let weighed: Vec<_> = self
            .iter()
            .map(|(tenant, bytes)| (tenant, bytes, u128::from(weight(tenant))))
            .collect();
        let weights: u128 = weighed.iter().map(|(_, _, weight)| weight).sum();
        let is_over =
            |bytes: u64, weight: u128| u128::from(bytes) * weights > u128::from(most) * weight;
        let over = weighed
            .into_iter()
            .filter(|(_, bytes, weight)| is_over(*bytes, *weight));
        Pressure::Some(over.map(|(tenant, ..)| tenant).collect())
    }
}

/// Which tenants wait for a commit and a write-back before they change something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Nobody.
    #[default]
    None,
    /// These.
    Some(Vec<u64>),
    /// Everybody: whose the bytes are is not who makes them.
    All,
}

impl Pressure {
    /// Whether this tenant waits.
    pub fn holds(&self, tenant: u64) -> bool {
        match self {
            Pressure::None => false,
            Pressure::Some(tenants) => tenants.contains(&tenant),
            Pressure::All => true,
        }
    }
}

/// The tenant that an inode with these attributes is charged to.
pub(crate) fn owner(attrs: &Attrs) -> u64 {
    crate::tenant::TenantId::of(attrs.project, attrs.uid).number()
}

/// What extended attributes in a record count for beside the operation, in bytes.
pub(crate) fn bytes_of(xattrs: &[Xattr]) -> u64 {
    let each = |(name, value): &Xattr| size_of::<Xattr>() + name.len() + value.len();
    COPIES * xattrs.iter().map(each).sum::<usize>() as u64
}

/// What a new inode counts for beside the operation, in bytes.
#[inline]
pub(crate) fn bytes_of_new(inode: &Inode) -> u64 {
    COPIES * inode.target.len() as u64 + bytes_of(&inode.xattrs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn bounds_follow_the_budget_between_their_limits() {
        for budget in [0, 16 * MIB, 64 * MIB, 4 << 30, 1 << 50] {
            let bounds = LogBounds::of(budget);
            assert!(bounds.records.is_power_of_two() && bounds.bytes.is_power_of_two());
            assert!(bounds.records >= 256 && bounds.records <= 32 << 10);
            assert!(bounds.bytes >= 256 << 10 && bounds.bytes <= 64 << 20);
            let least = (256 << 10) * AHEAD * cores() as u64;
            assert!(
                budget == 0 || bounds.most <= (budget / PART).max(least),
                "{bounds:?}"
            );
        }
        let bounds = LogBounds::of(0);
        assert!(bounds.asks_at(2 * bounds.records) && !bounds.asks_at(bounds.records + 1));
        let at = 3 * bounds.bytes;
        assert!(bounds.asks_between(at - 1, at) && !bounds.asks_between(at, at + 1));
    }

    #[test]
    fn bytes_are_kept_by_tenant_in_whatever_order_they_come() {
        let mut owed = Owed::default();
        for (tenant, bytes) in [(1, 5), (2, 7), (1, 1), (0, 2), (2, 1)] {
            owed.add(tenant, bytes);
        }
        let mut all = Owed::default();
        all.add(2, 10);
        all.add_all(&owed);
        let mut found: Vec<_> = all.iter().collect();
        found.sort_unstable();
        assert_eq!(found, [(0, 2), (1, 6), (2, 18)]);
        assert_eq!(all.sum(), 26);
    }

    #[test]
    fn who_has_more_than_a_share_by_weight_waits_and_nobody_else() {
        let mut owed = Owed::default();
        owed.add(1, 80);
        owed.add(2, 20);
        let weight = |tenant| if tenant == 3 { 300 } else { 100 };
        assert_eq!(owed.pressure(100, weight), Pressure::None);
        owed.add(3, 10);
        // Shares of 100: 20, 20 and 60.
        assert_eq!(owed.pressure(100, weight), Pressure::Some(vec![1]));
        owed.add(2, 1);
        let pressure = owed.pressure(100, weight);
        assert!(pressure.holds(1) && pressure.holds(2) && !pressure.holds(3));
        // A tenant alone has all of it.
        let mut alone = Owed::default();
        alone.add(7, 101);
        assert_eq!(alone.pressure(100, weight), Pressure::Some(vec![7]));
        alone.add(7, 100);
        assert_eq!(alone.pressure(100, weight), Pressure::All);
    }

    #[test]
    fn whenever_there_is_too_much_somebody_waits() {
        let mut random = 7_u64;
        for _ in 0..1000 {
            let mut owed = Owed::default();
            for tenant in 0..random % 9 + 1 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                owed.add(tenant, random >> 40);
            }
            let most = owed.sum().saturating_sub(1);
            let weight = |tenant: u64| (tenant * 37 % 10_000 + 1) as u32;
            if owed.sum() > 2 {
                let pressure = owed.pressure(most, weight);
                assert!(owed.iter().any(|(tenant, _)| pressure.holds(tenant)));
            }
        }
    }
}
