//! Quota accounting of the volume, and the locks of limit changes.
//!
//! Lock order:
//! ```text
//! quota.entering     one tree becomes a project at a time
//! quota.setting      one change of quota settings at a time
//! ```

use super::build_options::BuildOptions;
use crate::data::PAGE;
use crate::quota::{CountedElsewhere, Ledger, Reservations, Tuning};
use hearth_sync::epoch::pin;
use hearth_sync::lock::RawLock;
use hearth_sync::lock_class;
use hearth_sync::primitive::{Arc, OnceLock, Weak, cores};

/// The quota state of a volume. Operations charge the ledger; `quotactl` takes the locks.
pub(crate) struct Quotas {
    /// Usage and limits of blocks and inodes.
    pub ledger: Ledger,
    /// Blocks reserved for pages that a kernel has in its cache.
    pub reservations: Reservations,
    /// One change of quota settings at a time.
    pub setting: RawLock<SettingLock>,
    /// One tree becomes a project at a time.
    pub entering: RawLock<EnteringLock>,
    /// The counter of a volume that has no inodes itself.
    pub counter: OnceLock<Weak<dyn CountedElsewhere>>,
    /// Whether callers change the volume's own limits no more. Set once.
    pub fixed: OnceLock<()>,
}

lock_class! {
    /// One tree becomes a project at a time.
    pub(crate) EnteringLock = "quota.entering", 15;
    /// One change of settings at a time.
    pub(crate) SettingLock = "quota.setting", 16;
}

impl Quotas {
    pub fn new(options: &BuildOptions) -> Quotas {
        let space = (options.bytes() / PAGE, options.inodes);
        let clock = Arc::clone(&options.clock);
        let ledger = Ledger::new(Tuning::of(cores()), space, options.quotas, move || {
            clock.now().sec
        });
        // A volume with a size refuses a write that would exceed it, at the write itself.
        if options.charge_first || options.size.is_some() {
            ledger.charge_first(&pin());
        }
        Quotas {
            ledger,
            reservations: Reservations::new(),
            setting: RawLock::new(),
            entering: RawLock::new(),
            counter: OnceLock::new(),
            fixed: OnceLock::new(),
        }
    }
}
