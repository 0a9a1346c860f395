//! Scripts in which limits are set: steps that are calls, and steps that are rules.

use crate::op::Op;
use crate::payer::{Payer, PayerKind, Resource};

/// One step of a script with quotas.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A call of a process.
    Call(usize, Op),
    /// What the keeper of the quotas does.
    Rule(Rule),
}

/// A change of what is allowed, or of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The variants say what their fields mean.
pub enum Rule {
    /// Limits of one payer, in bytes or inodes.
    Limit {
        payer: Payer,
        resource: Resource,
        hard: Change,
        soft: Change,
    },
    /// Limits of those of a kind who have none of their own.
    Default {
        kind: PayerKind,
        resource: Resource,
        hard: Change,
        soft: Change,
    },
    /// Seconds that those of a kind may stay above a soft limit.
    Grace {
        kind: PayerKind,
        resource: Resource,
        seconds: u64,
    },
    /// The same of one payer; `None`: those of its kind.
    GraceOf {
        payer: Payer,
        resource: Resource,
        seconds: Option<u64>,
    },
    /// A payer has no settings of its own any more.
    Clear { payer: Payer },
    /// Whether limits of a kind hold.
    Enforce { kind: PayerKind, on: bool },
    /// Time passes.
    Wait { seconds: i64 },
}

/// What becomes of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It stays.
    Keep,
    /// There is none from now on.
    Lift,
    /// It is this.
    To(u64),
}

impl Change {
    /// What a limit that was `now` is then.
    pub fn of(self, now: Option<u64>) -> Option<u64> {
        match self {
            Change::Keep => now,
            Change::Lift => None,
            Change::To(amount) => Some(amount),
        }
    }
}
