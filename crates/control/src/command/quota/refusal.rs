//! Why a command about quotas is refused: a line that names whose quota it is, what the command
//! would have done, and who may do that.

use hearth::{ControlError, LimitChange, LimitUpdate, QuotaError, QuotaId, QuotaKind, Resource};

/// What a command is about.
pub(super) struct Subject {
    /// `user:1000`, `user quotas`.
    whose: String,
    /// What would be done, after "may".
    would: String,
}

impl Subject {
    /// Something to do with one id's quota.
    pub fn of(who: QuotaId, would: impl Into<String>) -> Subject {
        Subject {
            whose: who.to_string(),
            would: would.into(),
        }
    }

    /// Something to do with those of a kind.
    pub fn of_kind(kind: QuotaKind, would: impl Into<String>) -> Subject {
        Subject {
            whose: format!("{} quotas", kind.name()),
            would: would.into(),
        }
    }

    /// Something to do with all of them.
    pub fn of_all(would: &str) -> Subject {
        Subject {
            whose: "quotas of the volume".to_owned(),
            would: would.to_owned(),
        }
    }

    /// Why it is refused.
    pub fn refused(&self, error: QuotaError) -> ControlError {
        let Subject { whose, would } = self;
        let reason = match &error {
            QuotaError::NotKeeper { owner } => format!(
                "{whose}: only root and user {owner}, the owner of the volume, may {would}; ask \
                 them"
            ),
            // These name it themselves.
            QuotaError::NotYours { .. }
            | QuotaError::NoSuchId { .. }
            | QuotaError::IdZero { .. } => error.to_string(),
            error => format!("{whose}: {error}"),
        };
        ControlError {
            errno: error.errno(),
            reason,
        }
    }

    /// A word about it that makes no sense.
    pub fn nonsense(&self, word: &str, expected: &str) -> ControlError {
        let whose = &self.whose;
        ControlError::invalid(format!(
            "{whose}: '{word}' is not understood; expected {expected}"
        ))
    }
}

/// A word that makes no sense.
pub(super) fn nonsense(word: &str, expected: &str) -> ControlError {
    ControlError::invalid(format!(
        "quota: '{word}' is not understood; expected {expected}"
    ))
}

/// `set a hard limit of 4096 bytes and lift the soft limit of inodes`.
pub(super) fn limits(change: &LimitChange) -> String {
    let all = [
        ("hard", Resource::Blocks, change.bytes_hard),
        ("soft", Resource::Blocks, change.bytes_soft),
        ("hard", Resource::Inodes, change.inodes_hard),
        ("soft", Resource::Inodes, change.inodes_soft),
    ];
    let one = |(which, resource, change): (&str, Resource, LimitUpdate)| match change {
        LimitUpdate::Keep => None,
        LimitUpdate::Lift => Some(format!("lift the {which} limit of {}", resource.name())),
        LimitUpdate::To(amount) => Some(format!(
            "set a {which} limit of {amount} {}",
            resource.name()
        )),
    };
    let all: Vec<String> = all.into_iter().filter_map(one).collect();
    all.join(" and ")
}

/// `set a grace period of 86400 s for bytes`.
pub(super) fn periods(times: &[(Resource, Option<u64>)]) -> String {
    let one = |(resource, seconds): &(Resource, Option<u64>)| match seconds {
        Some(seconds) => format!("set a grace period of {seconds} s for {}", resource.name()),
        None => format!("lift its own grace period for {}", resource.name()),
    };
    let all: Vec<String> = times.iter().map(one).collect();
    all.join(" and ")
}
