//! A first limit of bytes, and files that are open already: see "Charged before it is
//! acknowledged" in `docs/design/quota.md`.

use super::{Quota, QuotaError};
use crate::quota::{Book, Hand, QuotaId, Settings};
use hearth_sync::epoch::pin;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{Ordering, fence};
use hearth_sync::primitive::thread;
use std::time::Duration;

lock_class! {
    /// One change of settings at a time.
    pub(crate) SettingLock = "quota.setting", 16;
}

/// A file that is being opened just now is told of the limit a moment later.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(2);

impl Quota<'_> {
    /// Puts settings into force that `settings` makes of those of now.
    pub(super) fn put(
        &self,
        settings: impl FnOnce(&mut Book, &Hand<'_>) -> Result<Settings, QuotaError>,
    ) -> Result<(), QuotaError> {
        let _setting = self.core.setting.lock_guard();
        let settings = self.with_book(settings)?;
        // Whatever happens: what was announced is put into force or withdrawn.
        let _withdraw = Withdraw(self);
        if !self.forced {
            let whose = self.with_book(|book, _| book.announce(&settings));
            if let Some((who, inode, files)) = self.still_collecting(&whose) {
                let limit = self.with_book(|book, _| book.limit_by(&settings, who));
                return Err(QuotaError::Collecting {
                    who,
                    limit,
                    files,
                    inode,
                });
            }
        }
        self.with_book(|book, hand| book.put(settings, hand));
        Ok(())
    }

    /// Looks for files of these that a kernel collects writes of: whose the first is, its inode,
    /// and how many are theirs.
    fn still_collecting(&self, whose: &[QuotaId]) -> Option<(QuotaId, u64, usize)> {
        if whose.is_empty() {
            return None;
        }
        // Partner: `Door::charges_first`. Either the open file is seen here, or who opens it sees
        // what was announced.
        fence(Ordering::SeqCst);
        let mut found = self.collecting(whose);
        for _ in 1..LOOKS {
            if found.is_none() {
                break;
            }
            thread::sleep(PAUSE);
            found = self.collecting(whose);
        }
        found
    }

    fn collecting(&self, whose: &[QuotaId]) -> Option<(QuotaId, u64, usize)> {
        let observers = self.core.observers();
        let files = observers.iter().flat_map(|observer| observer.collecting());
        let mut found = None;
        for inode in files {
            let g = pin();
            let Ok(node) = self.core.node(inode, &g) else {
                continue;
            };
            let owners = node.meta.read().owners().ids();
            let Some(&owner) = owners.iter().find(|owner| whose.contains(owner)) else {
                continue;
            };
            let (who, _, files) = found.get_or_insert((owner, inode, 0));
            *files += usize::from(owners.contains(who));
        }
        found
    }
}

struct Withdraw<'q, 'v>(&'q Quota<'v>);

impl Drop for Withdraw<'_, '_> {
    fn drop(&mut self) {
        self.0.with_book(|book, _| book.withdraw());
    }
}
