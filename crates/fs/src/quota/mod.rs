//! Quotas: who owns how much of the volume, and who may own more.
//!
//! One ledger counts blocks and inodes for the volume, users, groups and projects. Far from every
//! limit a charge is one compare and exchange on a word of this core; near a limit it is decided
//! under the book's lock, exactly. `docs/design/quota.md` has the states and the proofs.
//!
//! Lock order:
//! ```text
//! anything of the volume
//!   quota.book           records, accounts, every movement between credit and granted
//! ```

mod account;
mod book;
mod credit;
mod kind;
mod ledger;
mod promises;
mod record;
mod rules;
mod slots;
mod tally;

pub(crate) use account::NO_ACCOUNT;
pub(crate) use book::{Book, Hand, Refusal, Settings, Tuning};
pub use book::{EVENTS_KEPT, QuotaEvent, QuotaEventKind};
pub use kind::{BLOCK, Owners, QuotaId, QuotaKind, Resource};
pub(crate) use ledger::{Charge, Ledger};
pub(crate) use promises::{Promised, Reservations};
pub use record::{QuotaRecord, QuotaUsage};
pub use rules::{DEFAULT_GRACE, Limit};
pub(crate) use rules::{Own, Rules};
pub use tally::RefusalReason;

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
