//! Limits of bytes, and files that are open already: see "Charged before it is acknowledged" in
//! `docs/design/quota.md`.

use super::{Quota, QuotaError};
use crate::inode::Inode;
use crate::quota::{Ledger, Owners, QuotaId, QuotaState, SettingsUpdate};
use crate::superblock::Superblock;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::primitive::atomic::{Ordering, fence};
use hearth_sync::primitive::thread;
use std::time::Duration;

/// A file that is being opened just now is told of the limit a moment later.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// Files that a kernel collects writes of.
#[derive(Default)]
struct Found {
    /// How many, of anybody.
    all: usize,
    /// The first of those that would come under the limit: whose, its inode, and how many are
    /// theirs.
    first: Option<(QuotaId, u64, usize)>,
}

impl Quota<'_> {
    /// Puts settings into force that `settings` makes of those of now.
    pub(super) fn put(
        &self,
        settings: impl FnOnce(&mut QuotaState) -> Result<SettingsUpdate, QuotaError>,
    ) -> Result<(), QuotaError> {
        let _setting = self.sb.quotas.setting.lock_guard();
        let ledger = &self.sb.quotas.ledger;
        let settings = self.with_state(|state, _| settings(state))?;
        // Whatever happens: what was announced is put into force or withdrawn.
        let _withdraw = AbortOnDrop(ledger);
        let mut none_left = false;
        if ledger.prepare(settings, &pin()) {
            // Partner: a mount looks for what is announced when it can be seen here.
            fence(Ordering::SeqCst);
            let observers = self.sb.observers();
            if !self.forced && observers.iter().any(|observer| observer.collects_anyway()) {
                return Err(QuotaError::CollectsAnyway);
            }
            let found = self.still_collecting();
            none_left = found.all == 0;
            if let Some((who, inode, files)) = found.first.filter(|_| !self.forced) {
                let limit = self.with_state(|state, _| state.limit_by(&settings, who));
                return Err(QuotaError::Collecting {
                    who,
                    limit,
                    files,
                    inode,
                });
            }
        }
        ledger.commit(settings, none_left, &pin());
        Ok(())
    }

    /// Looks for files of whom the announced limit is the first for.
    fn still_collecting(&self) -> Found {
        // Partner: `VolumeVfs::charges_first`. Either the open file is seen here, or who opens it sees
        // what was announced.
        fence(Ordering::SeqCst);
        let mut found = self.collecting();
        for _ in 1..LOOKS {
            if found.first.is_none() || self.forced {
                break;
            }
            thread::sleep(PAUSE);
            found = self.collecting();
        }
        found
    }

    fn collecting(&self) -> Found {
        let mut found = Found::default();
        for ino in self.sb.collecting() {
            let g = pin();
            let Ok(inode) = self.sb.inode(ino, &g) else {
                continue;
            };
            found.all += 1;
            // Partner: `recharge`. Either the new owners are seen here, or who gives the file away
            // sees what was announced.
            let _change = inode.meta.change.lock();
            let owners = inode.meta.read().owners();
            let Some(owner) = self.with_state(|state, _| state.newly_limited(owners)) else {
                continue;
            };
            let (who, _, files) = found.first.get_or_insert((owner, ino, 0));
            *files += usize::from(owners.ids().contains(who));
        }
        found
    }
}

impl Superblock {
    /// Inodes of the files whose writes a kernel collects, once for each open file.
    fn collecting(&self) -> Vec<u64> {
        let observers = self.observers();
        let files = observers.iter().flat_map(|observer| observer.collecting());
        files.collect()
    }

    /// Whether `inode` would come under a limit of bytes by belonging to `owners`, while a kernel
    /// collects writes of it that the limit could refuse. Under the `change` of the inode.
    pub(crate) fn would_lose_writes(&self, inode: &Inode, owners: Owners, g: &Guard) -> bool {
        let old = inode.meta.read().owners();
        // Partner: `Quota::collecting`.
        owners != old
            && self.quotas.ledger.has_leftovers()
            && self
                .quotas
                .ledger
                .with_state(g, |state, _| state.limits_bytes_of(owners, old))
            && self.collecting().contains(&inode.number())
    }

    /// Whether the last file that was opened before limits is closed, once in a while.
    pub(crate) fn look_for_leftovers(&self) {
        if self.quotas.ledger.has_leftovers() {
            let _setting = self.quotas.setting.lock_guard();
            if self.collecting().is_empty() {
                self.quotas.ledger.clear_leftovers();
            }
        }
    }
}

struct AbortOnDrop<'v>(&'v Ledger);

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        self.0.abort(&pin());
    }
}
