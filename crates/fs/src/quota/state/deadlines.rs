//! Ends of grace periods. No charge may ever run into one, so a periodic pass looks for them.

use super::{QuotaCx, QuotaEventKind, QuotaState};
use crate::quota::kept::KeptQuota;
use crate::quota::kind::Resource;
use std::collections::BTreeSet;

/// Ends that were not reported yet, the next one first: (time, index of the record, resource).
#[derive(Default)]
pub(crate) struct Deadlines(BTreeSet<(i64, usize, Resource)>);

impl QuotaState {
    /// Updates the list, and keeps the deadline, after that of a record may have changed.
    pub(super) fn watch(&mut self, dquot: usize, resource: Resource, cx: &QuotaCx<'_>) {
        let usage = self.dquots[dquot].usage(resource);
        let (before, now) = (usage.watched, usage.deadline);
        if before == now {
            return;
        }
        usage.watched = now;
        if let Some(before) = before {
            self.deadlines.0.remove(&(before, dquot, resource));
        }
        if let Some(now) = now {
            self.deadlines.0.insert((now, dquot, resource));
        }
        let dquot = &self.dquots[dquot];
        if let Some(keep) = cx.keep {
            // Nobody asked for it, so nobody can be refused: whoever keeps it says what is lost.
            let _ = keep(KeptQuota::Grace(dquot.who, dquot.grace_ends()));
        }
    }

    /// A refusal has reported the end.
    pub(super) fn unwatch(&mut self, dquot: usize, resource: Resource) {
        let watched = self.dquots[dquot].usage(resource).watched;
        if let Some(deadline) = watched {
            self.deadlines.0.remove(&(deadline, dquot, resource));
        }
    }

    /// Reports up to `most` grace periods that have ended, and events that were held back. False if
    /// more periods may have ended.
    pub fn report_ended(&mut self, most: usize, cx: &QuotaCx<'_>) -> bool {
        self.tell_lost(cx);
        self.coalescer.release(cx.now, &mut self.events);
        for _ in 0..most {
            let Some(&(deadline, dquot, resource)) = self.deadlines.0.first() else {
                return true;
            };
            if deadline > cx.now {
                return true;
            }
            self.deadlines.0.pop_first();
            // A record with a deadline has use, so it exists.
            let soft = self.dquots[dquot].usage(resource).bounds.soft;
            self.report_event(dquot, resource, QuotaEventKind::GraceEnded, soft, cx);
        }
        false
    }
}
