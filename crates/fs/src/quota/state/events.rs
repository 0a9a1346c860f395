//! The latest quota events, in a ring that ids share fairly.

use crate::errno::Errno;
use crate::quota::kind::{QuotaId, Resource};
use crate::quota::usage::RefusalReason;
use std::collections::{HashMap, VecDeque};

/// Events that are kept.
pub const EVENTS_KEPT: usize = 1024;
/// Events of one id that are safe from ids with more events.
const SHARE: usize = 32;

/// An event of a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaEvent {
    /// Sequence number within the volume, from 1.
    pub sequence: u64,
    /// Seconds of the wall clock, of the last of [`QuotaEvent::times`] occurrences.
    pub time: i64,
    /// The id; [`QuotaId::UNKNOWN_USER`] if the owner of a file could not be learned.
    pub who: QuotaId,
    /// Bytes or inodes.
    pub resource: Resource,
    /// What happened.
    pub what: QuotaEventKind,
    /// Use at that moment, in bytes or inodes.
    pub used: u64,
    /// The limit concerned, in bytes or inodes.
    pub limit: u64,
    /// Number of occurrences. 1, unless it happened more than eight times within a minute: the rest
    /// of that minute is one event, reported when the minute is over.
    pub times: u64,
    /// The file that it happened to, of the last occurrence, if it is about one.
    pub file: Option<QuotaEventFile>,
}

/// The file of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaEventFile {
    /// Inode number, as programs see it. By the time the event is read it may belong to another
    /// inode, which has another generation.
    pub ino: u64,
    /// What `FS_IOC_GETVERSION` tells; `None` if the inode had gone before it could be asked.
    pub generation: Option<u32>,
    /// One of its paths; `None` if it has none any more, or none was found.
    pub path: Option<Vec<u8>>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaEventKind {
    /// Use passed the soft limit; growth is refused from `deadline` on (seconds of the wall clock).
    SoftCrossed {
        /// End of the grace period.
        deadline: i64,
    },
    /// The grace period has ended while use is above the soft limit. Reported once, by the
    /// background work, unless a refusal was reported before.
    GraceEnded,
    /// Use is within the soft limit again.
    SoftReturned,
    /// Use is above the hard limit: a charge was forced, or the limit was lowered. Reported once,
    /// and again after use was within it.
    HardCrossed,
    /// A charge was refused. Reported once, and again after something was given back.
    Refused(RefusalReason),
    /// Bytes that had been acknowledged could not be stored, and are lost. `fsync` says so. `who`
    /// is the owner of the file.
    WriteLost {
        /// Why.
        errno: Errno,
        /// How many; `None` if only a host below knows, which tells that there were some.
        bytes: Option<u64>,
    },
    /// A file that had a project was set to project 0, by a call that sets all attributes of a file
    /// at once: perhaps by a program that did not mean to. `who` is the project.
    ProjectLeft {
        /// User id of the caller.
        uid: u32,
        /// Process id of the caller.
        pid: u32,
    },
}

impl QuotaEventKind {
    /// Number of kinds.
    pub(super) const KINDS: usize = 8;

    /// Number of the kind.
    pub(super) fn kind(self) -> usize {
        match self {
            QuotaEventKind::SoftCrossed { .. } => 0,
            QuotaEventKind::GraceEnded => 1,
            QuotaEventKind::SoftReturned => 2,
            QuotaEventKind::HardCrossed => 3,
            QuotaEventKind::Refused(RefusalReason::Hard) => 4,
            QuotaEventKind::Refused(RefusalReason::GraceEnded) => 5,
            QuotaEventKind::WriteLost { .. } => 6,
            QuotaEventKind::ProjectLeft { .. } => 7,
        }
    }

    /// What one event says of this and of earlier occurrences of its kind: the last one, but all
    /// the bytes that were lost.
    pub(super) fn after(self, earlier: QuotaEventKind) -> QuotaEventKind {
        match (self, earlier) {
            (
                QuotaEventKind::WriteLost { errno, bytes },
                QuotaEventKind::WriteLost { bytes: before, .. },
            ) => QuotaEventKind::WriteLost {
                errno,
                bytes: sum_of_lost(bytes, before),
            },
            _ => self,
        }
    }
}

/// Bytes that were lost in both of two events; unknown if those of one are.
pub(super) fn sum_of_lost(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| one.saturating_add(other))
}

/// The ring. When it is full, the id with most events loses its oldest one if it has more than its
/// share; otherwise the oldest event of all goes.
#[derive(Default)]
pub(crate) struct Events {
    ring: VecDeque<QuotaEvent>,
    /// Number of events in the ring by id.
    shares: HashMap<QuotaId, usize>,
    /// Sequence number of the latest event.
    sequence: u64,
}

impl Events {
    /// Adds an event and numbers it.
    pub fn push(&mut self, mut event: QuotaEvent) {
        self.sequence += 1;
        event.sequence = self.sequence;
        *self.shares.entry(event.who).or_default() += 1;
        self.ring.push_back(event);
        if self.ring.len() > EVENTS_KEPT {
            self.drop_one();
        }
    }

    fn drop_one(&mut self) {
        let most = self.shares.values().max().copied();
        let most = most.filter(|&most| most > SHARE);
        let goes =
            |event: &QuotaEvent| most.is_none_or(|most| self.shares.get(&event.who) == Some(&most));
        let at = self.ring.iter().position(goes);
        let Some(event) = at.and_then(|at| self.ring.remove(at)) else {
            return;
        };
        if let Some(share) = self.shares.get_mut(&event.who) {
            *share -= 1;
            if *share == 0 {
                self.shares.remove(&event.who);
            }
        }
    }

    /// The events that are kept and came after `sequence`.
    pub fn after(&self, sequence: u64) -> Vec<QuotaEvent> {
        let news = self.ring.iter().filter(|event| event.sequence > sequence);
        news.cloned().collect()
    }

    /// Number of the latest event; 0 before the first.
    pub fn latest(&self) -> u64 {
        self.sequence
    }
}
