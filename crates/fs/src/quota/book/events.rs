//! The last things worth telling, in a ring.

use crate::quota::kind::{QuotaId, Resource};
use crate::quota::tally::Reason;
use std::collections::VecDeque;

/// Events that are kept.
pub const EVENTS_KEPT: usize = 1024;

/// Something that the owner of a quota would want to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaEvent {
    /// Counts up by one from 1 for each event of the volume.
    pub sequence: u64,
    /// Seconds of the wall clock.
    pub time: i64,
    /// Whose quota.
    pub who: QuotaId,
    /// Bytes or inodes.
    pub resource: Resource,
    /// What happened.
    pub what: Happening,
    /// Use at that moment, in bytes or inodes.
    pub used: u64,
    /// The limit concerned, in bytes or inodes.
    pub limit: u64,
}

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
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
    Refused(Reason),
}

/// The ring.
#[derive(Default)]
pub(crate) struct Events {
    ring: VecDeque<QuotaEvent>,
    /// Of the latest event.
    sequence: u64,
}

impl Events {
    /// Adds an event; its sequence number is given here.
    pub fn push(&mut self, mut event: QuotaEvent) {
        self.sequence += 1;
        event.sequence = self.sequence;
        if self.ring.len() == EVENTS_KEPT {
            self.ring.pop_front();
        }
        self.ring.push_back(event);
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
