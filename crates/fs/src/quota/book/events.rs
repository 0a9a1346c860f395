//! The last things worth telling, in a ring that everybody has an equal share of.

use crate::quota::kind::{QuotaId, Resource};
use crate::quota::tally::RefusalReason;
use std::collections::{HashMap, VecDeque};

/// Events that are kept.
pub const EVENTS_KEPT: usize = 1024;
/// Of one id: events that no event of an id with more takes the place of.
const SHARE: usize = 32;

/// Something that the owner of a quota would want to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaEvent {
    /// Counts up by one from 1 for each event of the volume.
    pub sequence: u64,
    /// Seconds of the wall clock; of the last of its [`QuotaEvent::times`].
    pub time: i64,
    /// Whose quota.
    pub who: QuotaId,
    /// Bytes or inodes.
    pub resource: Resource,
    /// What happened.
    pub what: QuotaEventKind,
    /// Use at that moment, in bytes or inodes.
    pub used: u64,
    /// The limit concerned, in bytes or inodes.
    pub limit: u64,
    /// How often it happened since it was told of before. 1, but for what happens more than eight
    /// times a minute: the rest of the minute is one event, which is told when the minute is over.
    pub times: u64,
}

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaEventKind {
    /// Use passed the soft limit; growth is refused from `deadline` on (seconds of the wall clock).
    SoftCrossed {
        /// End of the grace period.
        deadline: i64,
    },
    /// The grace period has ended, and use is above the soft limit still. Told once, by the
    /// background or [`crate::Volume::run_background_once`]; not if a refusal was told of before.
    GraceEnded,
    /// Use is within the soft limit again.
    SoftReturned,
    /// Use is above the hard limit: it was forced, or the limit was lowered. Told once, and again
    /// after use was within it.
    HardCrossed,
    /// Growth was refused. Told once, and again after something was given back.
    Refused(RefusalReason),
}

impl QuotaEventKind {
    /// How many kinds there are.
    pub(super) const KINDS: usize = 6;

    /// Number of the kind.
    pub(super) fn kind(self) -> usize {
        match self {
            QuotaEventKind::SoftCrossed { .. } => 0,
            QuotaEventKind::GraceEnded => 1,
            QuotaEventKind::SoftReturned => 2,
            QuotaEventKind::HardCrossed => 3,
            QuotaEventKind::Refused(RefusalReason::Hard) => 4,
            QuotaEventKind::Refused(RefusalReason::GraceEnded) => 5,
        }
    }
}

/// The ring. When it is full, who has most in it loses the oldest of theirs, if that is more than a
/// share; else the oldest of all goes.
#[derive(Default)]
pub(crate) struct Events {
    ring: VecDeque<QuotaEvent>,
    /// How many of the ring are whose.
    shares: HashMap<QuotaId, usize>,
    /// Of the latest event.
    sequence: u64,
}

impl Events {
    /// Adds an event; its sequence number is given here.
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
