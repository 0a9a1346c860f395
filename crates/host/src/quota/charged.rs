//! What is charged for one inode.

use super::known_blocks::KnownBlocks;
use super::labels::Labels;
use hearth::{Amounts, BLOCK, Charges, Owners};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

lock_class!(pub ChargedLock = "host.charged", 700);

/// Of an inode whose project nobody has asked for yet.
const UNKNOWN: u64 = u64::MAX;
/// The bit above the 32 of the project: [`Membership::passes_on`].
const PASSES_ON: u64 = 1 << 32;

/// What quotas know of an inode that is in use.
#[derive(Debug)]
pub struct Charged {
    record: Lock<ChargedLock, Option<Record>>,
    /// The project and [`PASSES_ON`]. Relaxed: whoever moves an inode to another one settles it
    /// after.
    member: AtomicU64,
    /// Of a directory: what new files in it have.
    pub labels: Labels,
}

/// The project of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Its id, 0 for none.
    pub project: u32,
    /// Whether what is made in a directory belongs to it as well.
    pub passes_on: bool,
}

/// What the ledger holds for an inode.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub owners: Owners,
    pub amounts: Amounts,
    /// Blocks of these that the operation that goes on may leave unused or free. Those beyond are
    /// known to be used, whatever the host tells for a moment. `None` if nobody knows.
    pub spare: Option<u64>,
    /// What the record began with.
    pub began: (Owners, Amounts),
    /// Blocks that were reserved for writes may be told until then. After it, what is told counts.
    pub late_until: Option<Instant>,
    /// What of its data and holes need not be asked.
    pub known: KnownBlocks,
}

impl Default for Charged {
    fn default() -> Charged {
        Charged {
            record: Lock::new(None),
            member: AtomicU64::new(UNKNOWN),
            labels: Labels::default(),
        }
    }
}

impl Charged {
    /// The record, for one operation.
    pub fn record(&self) -> &Lock<ChargedLock, Option<Record>> {
        &self.record
    }

    /// The project, once it is known.
    pub fn project(&self) -> Option<u32> {
        Some(self.membership()?.project)
    }

    /// [`Charged::project`], and whether it is passed on.
    pub fn membership(&self) -> Option<Membership> {
        match self.member.load(Relaxed) {
            UNKNOWN => None,
            word => Some(Membership {
                project: word as u32,
                passes_on: word & PASSES_ON != 0,
            }),
        }
    }

    /// It belongs to this project.
    pub fn set_membership(&self, member: Membership) {
        self.member.store(member.word(), Relaxed);
    }

    /// It was seen to belong to this project, unless somebody else has said so already: what was
    /// read a while ago must not replace what was set since.
    pub fn learn(&self, member: Membership) {
        let _ = self
            .member
            .compare_exchange(UNKNOWN, member.word(), Relaxed, Relaxed);
    }
}

impl Membership {
    /// Of an inode that passes its project on.
    pub fn inherited(project: u32) -> Membership {
        Membership {
            project,
            passes_on: true,
        }
    }

    /// The project of what is made below.
    pub fn of_new(self) -> u32 {
        if self.passes_on { self.project } else { 0 }
    }

    fn word(self) -> u64 {
        let flag = if self.passes_on { PASSES_ON } else { 0 };
        u64::from(self.project) | flag
    }
}

impl Record {
    /// What the ledger holds already.
    pub fn of(owners: Owners, amounts: Amounts) -> Record {
        Record {
            owners,
            amounts,
            spare: Some(0),
            began: (owners, amounts),
            late_until: None,
            known: KnownBlocks::default(),
        }
    }

    /// Blocks that are used for certain, at the end of an operation, if anybody knows.
    pub fn take_least(&mut self) -> Option<u64> {
        let spare = self.spare.replace(0)?;
        Some(self.amounts[0].saturating_sub(spare))
    }

    /// What a file of `size` bytes uses, of which the host tells `told`.
    pub fn believed(&self, told: Amounts, size: u64) -> Amounts {
        let is_late = self.late_until.is_some_and(|until| until > Instant::now());
        let reserved = if is_late { self.amounts[0] } else { 0 };
        [told[0].max(reserved.min(size.div_ceil(BLOCK))), told[1]]
    }

    /// Makes the ledger hold this, whatever the limits say.
    pub fn settle_to(&mut self, charges: &Charges, owners: Owners, amounts: Amounts) {
        if amounts[0] != self.amounts[0] {
            // What was freed must be reserved when it is written again.
            self.known.forget();
        }
        if owners != self.owners {
            // What is no longer there goes first, what has come follows.
            let kept = [0, 1].map(|at| self.amounts[at].min(amounts[at]));
            let gone = [0, 1].map(|at| self.amounts[at] - kept[at]);
            charges.free(self.owners, gone);
            // Forced, so it is not refused.
            let _ = charges.transfer(self.owners, owners, kept, true);
            (self.owners, self.amounts) = (owners, kept);
        }
        let more = [0, 1].map(|at| amounts[at].saturating_sub(self.amounts[at]));
        let less = [0, 1].map(|at| self.amounts[at].saturating_sub(amounts[at]));
        charges.free(owners, less);
        charges.force(owners, more);
        self.amounts = amounts;
    }
}
