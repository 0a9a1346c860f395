//! The ledger of a volume for inodes that the volume does not have: those of a directory of the
//! host, which a front end serves and counts (`docs/design/host.md`).

use super::{Quota, QuotaError, check_id};
use crate::caller::Caller;
use crate::errno::{Errno, Result};
use crate::quota::{CountedElsewhere, KeepError, KeptQuota, Owners, QuotaCheck, QuotaId, Resource};
use crate::settings::quota as settings;
use crate::stats::Event;
use crate::volume::Volume;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::{Arc, Weak};

/// Blocks and inodes, in units of the ledger, by [`Resource`].
pub type Amounts = [u64; 2];

/// Key and value of a kept setting, both one line of text.
pub type KeptSetting = (Box<[u8]>, Box<[u8]>);

/// Charges for inodes that the volume does not have. Frees are clamped to what their owners have
/// charged: what exists may change where nobody sees it.
#[derive(Clone)]
pub struct Charges(Volume);

impl Volume {
    /// Opens the ledger for inodes that the volume does not have. From now on it holds nothing of
    /// the volume's own, and the volume has no limits until some are set.
    pub fn charges(&self) -> Charges {
        let root = self.sb.options.owner;
        let ledger = &self.sb.quotas.ledger;
        let g = pin();
        ledger.with_state(&g, |state, cx| state.count_elsewhere(cx));
        let owners = Owners {
            uid: root.0,
            gid: root.1,
            project: 0,
        };
        ledger.free_of(owners, Resource::Inodes, 1, &g);
        Charges(self.clone())
    }

    /// Names the counter of what is charged by [`Charges`]. The first one stays.
    pub fn counted_by(&self, counter: &Arc<dyn CountedElsewhere>) {
        let weak = Arc::downgrade(counter);
        self.sb.quotas.counter.get_or_init(|| weak);
    }
}

impl Charges {
    /// Charges all or nothing.
    ///
    /// # Errors
    /// `EDQUOT` for a limit of a user or group, `ENOSPC` for one of a project.
    pub fn charge(&self, owners: Owners, amounts: Amounts) -> Result<()> {
        let (ledger, g) = (&self.0.sb.quotas.ledger, pin());
        self.0.sb.note_project(owners.project);
        let amount = |resource| (resource, amounts[resource as usize]);
        let none = crate::quota::NO_ACCOUNT;
        let inodes = ledger.charge_new(none, owners, amount(Resource::Inodes), &g);
        let mut inodes = inodes.map_err(Errno::from)?;
        let blocks = ledger.charge_new(none, owners, amount(Resource::Blocks), &g);
        let mut blocks = blocks.map_err(Errno::from)?;
        inodes.spend(amounts[Resource::Inodes as usize]);
        blocks.spend(amounts[Resource::Blocks as usize]);
        Ok(())
    }

    /// Charges what exists already, whatever the limits say.
    pub fn force(&self, owners: Owners, amounts: Amounts) {
        self.0.sb.note_project(owners.project);
        if amounts != [0; 2] {
            let ledger = &self.0.sb.quotas.ledger;
            ledger.charge_forced(owners, amounts, &pin());
        }
    }

    /// Frees what was charged.
    pub fn free(&self, owners: Owners, amounts: Amounts) {
        let g = pin();
        for resource in Resource::ALL {
            let ledger = &self.0.sb.quotas.ledger;
            ledger.free_of(owners, resource, amounts[resource as usize], &g);
        }
    }

    /// Moves a charge to other owners. With `force` the limits are ignored.
    ///
    /// # Errors
    /// As [`Charges::charge`]; nothing has moved then.
    pub fn transfer(&self, from: Owners, to: Owners, amounts: Amounts, force: bool) -> Result<()> {
        let ledger = &self.0.sb.quotas.ledger;
        self.0.sb.note_project(to.project);
        Ok(ledger.transfer_of(from, to, amounts, force, &pin())?)
    }

    /// Whether `caller` may give an inode of `old` project `new`, or change whether a directory
    /// passes its own on (`changes_inherit`).
    ///
    /// # Errors
    /// `EPERM` for whoever is neither root nor the owner of the volume, as on a volume that has its
    /// inodes itself; `EINVAL` for an id that no project has.
    pub fn may_change_project(
        &self,
        caller: &Caller<'_>,
        (old, new): (u32, u32),
        changes_inherit: bool,
    ) -> Result<()> {
        let moves = new != old;
        if (moves || changes_inherit) && !caller.manages_volume_of(self.0.sb.options.owner.0) {
            return Err(Errno::EPERM);
        }
        match moves && check_id(QuotaId::project(new)).is_err() {
            true => Err(Errno::EINVAL),
            false => Ok(()),
        }
    }

    /// What each triple of owners has charged. Recalls all credit.
    pub fn by_owners(&self) -> Vec<(Owners, Amounts)> {
        let ledger = &self.0.sb.quotas.ledger;
        ledger.with_state(&pin(), |state, cx| state.by_owners(cx))
    }

    /// Hard limit and use of `who`, by resource; `None` without a limit.
    pub fn limits(&self, who: QuotaId) -> [Option<(u64, u64)>; 2] {
        let usage = self.0.sb.quotas.ledger.usage(who, &pin());
        usage.map(|usage| Some((usage.usage.bounds.hard?, usage.used)))
    }

    /// Whether this program would write a setting of quotas just so; without a value, whether it
    /// would take one of this key away. What it understands in part would hold in part.
    pub fn is_setting(key: &[u8], value: Option<&[u8]>) -> bool {
        settings::is_whole(key, value)
    }

    /// Puts kept settings into force, and passes on each that changes from now on: key and value,
    /// no value if there is nothing to say any more, and whether somebody sets it, who is refused
    /// if it cannot be kept. `keep` is called under the lock of the ledger.
    pub fn keep_settings(
        &self,
        kept: &[KeptSetting],
        keep: impl Fn(&[u8], Option<&[u8]>, bool) -> std::result::Result<(), KeepError>
        + Send
        + Sync
        + 'static,
    ) {
        let (settings, _) = self.decoded(kept);
        self.0.sb.quotas.ledger.restore(&settings, &pin());
        let keep = move |kept: KeptQuota| {
            let (key, value) = settings::encode(&kept);
            let is_set = !matches!(kept, KeptQuota::Grace(..));
            keep(&key, value.as_deref(), is_set)
        };
        self.0.sb.quotas.ledger.keep_with(Box::new(keep));
    }

    /// Lets kept grace periods go on, once all that exists is charged.
    pub fn resume_grace(&self, kept: &[KeptSetting]) {
        let (_, grace) = self.decoded(kept);
        self.0.sb.quotas.ledger.restore(&grace, &pin());
    }

    /// Settings, and ends of grace periods.
    fn decoded(&self, kept: &[KeptSetting]) -> (Vec<KeptQuota>, Vec<KeptQuota>) {
        let read = kept.iter().filter_map(|(key, value)| {
            let read = settings::decode(key, value)?;
            if read.is_err() {
                self.0.sb.stats.event(Event::SettingIgnored);
            }
            read.ok()
        });
        read.partition(|kept| !matches!(kept, KeptQuota::Grace(..)))
    }
}

impl std::fmt::Debug for Charges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Charges").finish_non_exhaustive()
    }
}

impl Quota<'_> {
    /// The counter of a volume that has no inodes itself.
    pub(super) fn counter(&self) -> Option<Arc<dyn CountedElsewhere>> {
        self.sb.quotas.counter.get().and_then(Weak::upgrade)
    }

    /// [`Quota::check`]; where others change what exists behind the volume's back (a directory of
    /// the host) the ledger then says what the walk found.
    ///
    /// # Errors
    /// Those of [`Quota::check`].
    pub fn repair(&self) -> std::result::Result<QuotaCheck, QuotaError> {
        self.check_keeper()?;
        match self.counter() {
            Some(counter) => counter
                .check(true)
                .map_err(|errno| QuotaError::Volume { errno }),
            None => self.check(),
        }
    }
}
