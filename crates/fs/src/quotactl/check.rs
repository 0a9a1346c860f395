//! Comparing the ledger with the volume: `quota check`.

use super::tree::walk;
use super::{Quota, QuotaError};
use crate::errno::Errno;
use crate::inode::{Extra, Node, NodeExt};
use crate::number::{ROOT, is_control};
use crate::ops::promise;
use crate::quota::{Owners, QuotaId, Resource};
use crate::volume::Core;
use hearth_sync::epoch::{Guard, pin};
use std::collections::{BTreeMap, HashSet};

/// One id for which the ledger and the volume disagree, in bytes or inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaDifference {
    /// Whose.
    pub who: QuotaId,
    /// Bytes or inodes.
    pub resource: Resource,
    /// What the ledger says.
    pub ledger: u64,
    /// What the walk found.
    pub found: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaCheck {
    /// Inodes that were walked.
    pub inodes: u64,
    /// Of these, without a name but open.
    pub nameless: u64,
    /// Inodes whose `st_blocks` is not what they hold: (number, blocks it says, blocks it holds).
    pub wrong_blocks: Vec<(u64, u64, u64)>,
    /// Where the ledger differs.
    pub differences: Vec<QuotaDifference>,
}

impl QuotaCheck {
    /// Whether everything agrees.
    pub fn is_clean(&self) -> bool {
        self.wrong_blocks.is_empty() && self.differences.is_empty()
    }
}

impl Quota<'_> {
    /// Walks the whole volume, counts what every inode holds, and compares with the ledger and with
    /// `st_blocks`. Exact on a volume at rest; what changes meanwhile may show as a difference.
    ///
    /// # Errors
    /// [`QuotaError::NotKeeper`]; [`QuotaError::Volume`] if the home fails.
    pub fn check(&self) -> Result<QuotaCheck, QuotaError> {
        self.keeps()?;
        let core = self.core;
        let mut count = Count::default();
        walk(core, ROOT, &mut |_, node, g| {
            count.add(core, node, g);
            Ok(())
        })
        .map_err(|errno: Errno| QuotaError::Volume { errno })?;
        let g = pin();
        core.inodes.scan(0, &g, |node| {
            if node.meta.nlink() == 0 && count.add(core, node, &g) {
                count.result.nameless += 1;
            }
            true
        });
        let mut ledger = BTreeMap::new();
        let by_owners = self.with_book(|book, hand| {
            let by_owners = book.by_owners(hand);
            for (who, _, usage) in book.report(hand) {
                ledger.insert(who, usage.map(|usage| usage.used));
            }
            by_owners
        });
        let accounts = sum_by_id(by_owners);
        let found = sum_by_id(count.owners);
        let mut result = count.result;
        // The records say what their accounts do, and the accounts what the inodes do.
        compare(&ledger, &accounts, &mut result);
        if core.ledger.is_by_owner() {
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
    /// False if the inode was counted before, or is not to be.
    fn add(&mut self, core: &Core, node: &Node, g: &Guard) -> bool {
        let ino = node.number();
        if is_control(ino) || !self.seen.insert(ino) {
            return false;
        }
        let pages = node.data().map_or(0, |data| data.allocated(g).len() as u64);
        let held = pages + node.extra(g).map_or(0, Extra::blocks);
        if node.blocks() != held {
            self.result.wrong_blocks.push((ino, node.blocks(), held));
        }
        let sum = self.owners.entry(node.meta.read().owners()).or_default();
        sum[Resource::Blocks as usize] += held + promise::count(core, node);
        sum[Resource::Inodes as usize] += 1;
        self.result.inodes += 1;
        true
    }
}

fn sum_by_id(owners: impl IntoIterator<Item = (Owners, [u64; 2])>) -> BTreeMap<QuotaId, [u64; 2]> {
    let mut sums: BTreeMap<QuotaId, [u64; 2]> = BTreeMap::new();
    for (owners, amounts) in owners {
        for who in owners.ids() {
            let sum = sums.entry(who).or_default();
            sum[0] += amounts[0];
            sum[1] += amounts[1];
        }
    }
    sums
}

fn compare(
    ledger: &BTreeMap<QuotaId, [u64; 2]>,
    found: &BTreeMap<QuotaId, [u64; 2]>,
    result: &mut QuotaCheck,
) {
    let ids: std::collections::BTreeSet<QuotaId> =
        ledger.keys().chain(found.keys()).copied().collect();
    for who in ids {
        for resource in Resource::ALL {
            let of = |side: &BTreeMap<QuotaId, [u64; 2]>| {
                side.get(&who).map_or(0, |sum| sum[resource as usize]) * resource.unit()
            };
            if of(ledger) != of(found) {
                result.differences.push(QuotaDifference {
                    who,
                    resource,
                    ledger: of(ledger),
                    found: of(found),
                });
            }
        }
    }
}
