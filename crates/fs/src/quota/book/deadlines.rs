//! Ends of grace periods, which nobody's charge may ever meet: a pass looks for them.

use super::{Book, Hand, QuotaEventKind};
use crate::quota::kind::Resource;
use std::collections::BTreeSet;

/// Ends that were not told of, the next one first: of which record, by its index, and resource.
#[derive(Default)]
pub(crate) struct Deadlines(BTreeSet<(i64, usize, Resource)>);

impl Book {
    /// Looks from now on for the end of the grace period that a record has.
    pub(super) fn watch(&mut self, record: usize, resource: Resource) {
        let tally = self.records[record].tally(resource);
        let (before, now) = (tally.watched, tally.deadline);
        if before == now {
            return;
        }
        tally.watched = now;
        if let Some(before) = before {
            self.deadlines.0.remove(&(before, record, resource));
        }
        if let Some(now) = now {
            self.deadlines.0.insert((now, record, resource));
        }
    }

    /// A refusal has told of the end.
    pub(super) fn unwatch(&mut self, record: usize, resource: Resource) {
        let watched = self.records[record].tally(resource).watched;
        if let Some(deadline) = watched {
            self.deadlines.0.remove(&(deadline, record, resource));
        }
    }

    /// Tells of grace periods that have ended, of `most` of them, and of what was held back; false
    /// if more periods may have ended.
    pub fn tell_ended(&mut self, most: usize, hand: &Hand<'_>) -> bool {
        self.gates.release(hand.now, &mut self.events);
        for _ in 0..most {
            let Some(&(deadline, record, resource)) = self.deadlines.0.first() else {
                return true;
            };
            if deadline > hand.now {
                return true;
            }
            self.deadlines.0.pop_first();
            // Whoever has a deadline uses something, so the record is there.
            let soft = self.records[record].tally(resource).bounds.soft;
            self.tell(record, resource, QuotaEventKind::GraceEnded, soft, hand);
        }
        false
    }
}
