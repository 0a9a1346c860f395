//! Scripts with quotas: steps that are calls, and steps that are rules.

use crate::op::Op;
use crate::payer::{Payer, PayerKind, Resource};

/// One step of a script with quotas.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A call of a process.
    Call(usize, Op),
    /// An action of the administrator of the quotas.
    Rule(Rule),
}

/// A change of limits, or of the time.
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
    /// Limits of the payers of a kind that have none of their own.
    Default {
        kind: PayerKind,
        resource: Resource,
        hard: Change,
        soft: Change,
    },
    /// Seconds that payers of a kind may stay above a soft limit.
    Grace {
        kind: PayerKind,
        resource: Resource,
        seconds: u64,
    },
    /// Seconds that one payer may stay above a soft limit; `None`: those of its kind.
    GraceOf {
        payer: Payer,
        resource: Resource,
        seconds: Option<u64>,
    },
    /// Removes the settings of a payer.
    Clear { payer: Payer },
    /// Enforces limits of a kind, or stops enforcing them.
    Enforce { kind: PayerKind, on: bool },
    /// Time passes.
    Wait { seconds: i64 },
}

/// A change of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Unchanged.
    Keep,
    /// Removed.
    Lift,
    /// Set to this.
    To(u64),
}

impl Change {
    /// Returns the new limit of one that was `now`.
    pub fn of(self, now: Option<u64>) -> Option<u64> {
        match self {
            Change::Keep => now,
            Change::Lift => None,
            Change::To(amount) => Some(amount),
        }
    }
}
