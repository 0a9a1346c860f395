//! First limits of bytes, and files that are open already whose writes a kernel collects: see
//! "Charged before it is acknowledged" in `docs/design/quota.md`.

use super::{Quota, QuotaError};
use crate::inode::Inode;
use crate::quota::{Ledger, Owners, QuotaId, QuotaState, SettingsUpdate};
use crate::superblock::Superblock;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::primitive::atomic::{Ordering, fence};
use hearth_sync::primitive::thread;
use std::time::Duration;

/// A file that is being opened now sees the limit a moment later, so it is checked again.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// Files whose writes a kernel collects.
#[derive(Default)]
struct Collecting {
    /// Number of files of all owners.
    all: usize,
    /// The first file that would come under the limit: the id, the inode, and the number of files
    /// of the id.
    first: Option<(QuotaId, u64, usize)>,
}

impl Quota<'_> {
    /// Puts the settings into force that `settings` derives from the present ones.
    pub(super) fn put(
        &self,
        settings: impl FnOnce(&mut QuotaState) -> Result<SettingsUpdate, QuotaError>,
    ) -> Result<(), QuotaError> {
        let _setting = self.sb.quotas.setting.lock_guard();
        let ledger = &self.sb.quotas.ledger;
        let settings = self.with_state(|state, _| settings(state))?;
        // In every case the prepared settings are committed or aborted.
        let _withdraw = AbortOnDrop(ledger);
        let mut none_left = false;
        if ledger.prepare(settings, &pin()) {
            // Partner: a mount checks for prepared settings once it can be seen here.
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
        let committed = ledger.commit(settings, none_left, &pin());
        committed.map_err(|error| QuotaError::NotKept { error })
    }

    /// Looks for files for whose owners the prepared limit is the first.
    fn still_collecting(&self) -> Collecting {
        // Partner: `VolumeVfs::charges_first`. Either the open file is seen here,
        // or its opener sees the prepared limit.
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

    fn collecting(&self) -> Collecting {
        let mut found = Collecting::default();
        for ino in self.sb.collecting() {
            let g = pin();
            let Ok(inode) = self.sb.inode(ino, &g) else {
                continue;
            };
            found.all += 1;
            // Partner: `recharge`. Either the new owners are seen here, or the thread that gives
            // the file away sees the prepared limit.
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
    /// Inode numbers of the files whose writes a kernel collects, once for each open file.
    fn collecting(&self) -> Vec<u64> {
        let observers = self.observers();
        let files = observers.iter().flat_map(|observer| observer.collecting());
        files.collect()
    }

    /// Whether `inode` would come under a limit of bytes with `owners`, while a kernel collects
    /// writes of it that the limit could refuse. The caller holds the `change` of the inode.
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

    /// Clears the flag of leftovers once the last file that was opened before limits is closed.
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
