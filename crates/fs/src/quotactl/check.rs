//! Comparing the ledger with the volume: `quota check`.

use super::tree::TreeWalk;
use super::{Quota, QuotaError};
use crate::inode::{Inode, InodeExt, XattrsAcls};
use crate::number::{ROOT, is_control};
use crate::ops::ctx::Ctx;
use crate::ops::reserve;
use crate::quota::{Owners, QuotaCheck, QuotaId, Resource, compare, sum_by_id};
use crate::superblock::Superblock;
use crate::throttle::ThrottledLoop;
use hearth_sync::epoch::{Guard, pin};
use std::collections::{BTreeMap, HashSet};

/// Inodes that are visited under one guard.
const STEP: usize = 256;

impl Quota<'_> {
    /// Walks the whole volume, counts what every inode holds, and compares with the ledger and with
    /// `st_blocks`. Exact on a volume at rest; what changes meanwhile may show as a difference.
    ///
    /// While other threads of the process run it is throttled to a hundredth of the machine, and
    /// takes accordingly longer.
    ///
    /// # Errors
    /// [`QuotaError::NotKeeper`]; [`QuotaError::OffOfHost`]; [`QuotaError::Volume`] if the backend
    /// fails.
    pub fn check(&self) -> Result<QuotaCheck, QuotaError> {
        self.check_keeper()?;
        self.is_kept()?;
        if let Some(counter) = self.counter() {
            return counter
                .check(false)
                .map_err(|errno| QuotaError::Volume { errno });
        }
        let sb = self.sb;
        let mut count = Count::default();
        let (mut walk, mut stroll) = (TreeWalk::from(sb, ROOT), ThrottledLoop::begin());
        let mut see = |_: &Ctx<'_>, inode: &Inode, g: &Guard| {
            count.add(sb, inode, g);
            Ok(())
        };
        loop {
            let goes_on = walk.step(&mut see);
            if !goes_on.map_err(|errno| QuotaError::Volume { errno })? {
                break;
            }
            stroll.step();
        }
        let mut from = Some(0);
        while let Some(number) = from {
            from = count.add_nameless(sb, number);
            stroll.step();
        }
        let mut ledger = BTreeMap::new();
        let by_owners = self.with_state(|state, cx| {
            let by_owners = state.by_owners(cx);
            for sample in state.report(cx) {
                ledger.insert(sample.who, sample.usage.map(|usage| usage.used));
            }
            by_owners
        });
        let accounts = sum_by_id(by_owners);
        let found = sum_by_id(count.owners);
        let mut result = count.result;
        // Records must equal their accounts, and accounts their inodes.
        compare(&ledger, &accounts, &mut result);
        if sb.quotas.ledger.is_by_owner() {
            compare(&accounts, &found, &mut result);
        } else {
            let only = |all: &BTreeMap<QuotaId, [u64; 2]>| {
                let volume = all.get(&QuotaId::VOLUME).copied().unwrap_or_default();
                BTreeMap::from([(QuotaId::VOLUME, volume)])
            };
            compare(&only(&accounts), &only(&found), &mut result);
        }
        Ok(result)
    }
}

#[derive(Default)]
struct Count {
    seen: HashSet<u64>,
    owners: BTreeMap<Owners, [u64; 2]>,
    result: QuotaCheck,
}

impl Count {
    /// False if the inode was counted before, or is not counted.
    fn add(&mut self, sb: &Superblock, inode: &Inode, g: &Guard) -> bool {
        let ino = inode.number();
        if is_control(ino) || !self.seen.insert(ino) {
            return false;
        }
        let pages = inode.data().map_or(0, |data| data.pages(g));
        let extra = match inode.extra(g) {
            // Only the backend has them: they count for what they were charged before they left.
            Some(extra) if extra.is_at_backend => inode.extra_blocks(),
            extra => extra.map_or(0, XattrsAcls::blocks),
        };
        let held = pages + extra;
        if inode.blocks() != held {
            self.result.wrong_blocks.push((ino, inode.blocks(), held));
        }
        let sum = self.owners.entry(inode.meta.read().owners()).or_default();
        sum[Resource::Blocks as usize] += held + reserve::count(sb, inode);
        sum[Resource::Inodes as usize] += 1;
        self.result.inodes += 1;
        true
    }

    /// Visits some of the inodes in memory, from a number on, and returns the next number.
    fn add_nameless(&mut self, sb: &Superblock, from: u64) -> Option<u64> {
        let g = pin();
        let (mut left, mut next) = (STEP, None);
        sb.objects.inodes.scan(from, &g, |inode| {
            if inode.meta.nlink() == 0 && self.add(sb, inode, &g) {
                self.result.nameless += 1;
            }
            left -= 1;
            next = (left == 0).then(|| inode.number() + 1);
            left > 0
        });
        next
    }
}
