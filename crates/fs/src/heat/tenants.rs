//! Heat by who owns the files: sums of users, groups and projects.

use super::warmth::{Change, Counts, HalfLives, Millis, Warmth};
use crate::inode::Fields;
use std::collections::HashMap;

/// Who a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tenant {
    /// User id.
    User(u32),
    /// Group id.
    Group(u32),
    /// Project id.
    Project(u32),
}

/// The three tenants of one file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Owners([Tenant; 3]);

impl Owners {
    pub fn of(fields: &Fields) -> Owners {
        Owners([
            Tenant::User(fields.uid),
            Tenant::Group(fields.gid),
            Tenant::Project(fields.project),
        ])
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    pub total: Counts,
    pub warmth: Warmth,
    pub last_read: Option<Millis>,
    pub last_write: Option<Millis>,
}

/// What the files of each owner came to in one fold.
pub(super) struct Sums {
    /// Of the owner that came last: files beside each other mostly belong to one.
    last: Option<(Owners, Counts)>,
    others: HashMap<Owners, Counts>,
}

impl Sums {
    pub fn new() -> Sums {
        Sums {
            last: None,
            others: HashMap::new(),
        }
    }

    pub fn add(&mut self, owners: Owners, counts: &Counts) {
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

/// Sums of every tenant that has been seen. Not synchronised.
#[derive(Default)]
pub(super) struct Tenants(HashMap<Tenant, Sum>);

impl Tenants {
    pub fn touch(&mut self, mut owners: Sums, now: Millis, lives: &HalfLives) {
        owners.put_away();
        for (owners, counts) in &owners.others {
            for tenant in owners.0 {
                let sum = self.0.entry(tenant).or_default();
                sum.total.add(counts);
                sum.warmth.touch(counts, now, lives);
                if counts.reads > 0 {
                    sum.last_read = Some(now);
                }
                if counts.writes > 0 {
                    sum.last_write = Some(now);
                }
            }
        }
    }

    /// Half-lives change.
    pub fn adapt(&mut self, change: &Change) {
        for sum in self.0.values_mut() {
            sum.warmth.adapt(change);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Tenant, &Sum)> {
        self.0.iter().map(|(&tenant, sum)| (tenant, sum))
    }
}
