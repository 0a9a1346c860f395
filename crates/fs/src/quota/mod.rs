//! Quotas: how much of the volume each user, group and project uses, and may use.
//!
//! One ledger counts blocks and inodes for the volume, users, groups and projects. Far from all
//! limits a charge is one compare and exchange on a word of this CPU; near a limit it is decided
//! exactly, under one lock. `docs/design/quota.md` has the states and the proofs.
//!
//! Lock order:
//! ```text
//! anything of the volume
//!   quota.state          records, accounts, every movement between credit and `reserved`
//! ```

mod account;
mod account_table;
mod counted;
mod credit;
mod kept;
mod kind;
mod ledger;
mod record;
mod reservations;
mod rules;
mod state;
mod usage;

pub(crate) use account::NO_ACCOUNT;
pub use counted::{CountedElsewhere, QuotaCheck, QuotaDifference, SetProjectError, TreeChange};
pub(crate) use counted::{compare, sum_by_id};
pub use kept::KeepError;
pub(crate) use kept::KeptQuota;
pub use kind::{BLOCK, Owners, QuotaId, QuotaKind, Resource};
pub(crate) use ledger::{Charge, Ledger};
pub use record::{QuotaRecord, QuotaUsage};
pub(crate) use reservations::{InodeReservations, Reservations};
pub use rules::{DEFAULT_GRACE, Limit};
pub(crate) use rules::{IdSettings, KindSettings};
pub use state::{EVENTS_KEPT, QuotaEvent, QuotaEventFile, QuotaEventKind};
pub(crate) use state::{LostWrite, QuotaCx, QuotaState, Refusal, SettingsUpdate, Tuning};
pub use usage::RefusalReason;

use crate::errno::Errno;

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;

impl From<Refusal> for Errno {
    fn from(refusal: Refusal) -> Errno {
        if refusal.is_space() {
            Errno::ENOSPC
        } else {
            Errno::EDQUOT
        }
    }
}
