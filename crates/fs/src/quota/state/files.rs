//! Events about files: writes that were acknowledged and are lost, and projects that were left.

use super::events::sum_of_lost;
use super::{QuotaCx, QuotaEvent, QuotaEventFile, QuotaEventKind, QuotaState};
use crate::errno::Errno;
use crate::quota::kind::{BLOCK, QuotaId, Resource};

/// Files whose losses are summed up at a time. When more lose something, all are reported.
const FILES: usize = 64;

/// Bytes of a file that were acknowledged and could not be stored.
pub(crate) struct LostWrite {
    /// The owner of the file.
    pub who: QuotaId,
    pub file: QuotaEventFile,
    pub errno: Errno,
    /// `None` if it is not known how many.
    pub bytes: Option<u64>,
}

/// What was lost since events were looked at last, a sum for each file and errno: a kernel writes a
/// large file back in many parts.
#[derive(Default)]
pub(super) struct LostWrites(Vec<LostWrite>);

impl QuotaState {
    /// Adds to what was lost.
    pub fn note_lost(&mut self, lost: LostWrite, cx: &QuotaCx<'_>) {
        let is_same = |known: &&mut LostWrite| {
            let (one, other) = (&known.file, &lost.file);
            (one.ino, one.generation, known.errno) == (other.ino, other.generation, lost.errno)
        };
        if let Some(known) = self.lost.0.iter_mut().find(is_same) {
            known.bytes = sum_of_lost(known.bytes, lost.bytes);
            return;
        }
        if self.lost.0.len() >= FILES {
            self.tell_lost(cx);
        }
        self.lost.0.push(lost);
    }

    /// Reports what was lost: once a second, and before somebody reads events.
    pub fn tell_lost(&mut self, cx: &QuotaCx<'_>) {
        for lost in std::mem::take(&mut self.lost.0) {
            let LostWrite { errno, bytes, .. } = lost;
            let what = QuotaEventKind::WriteLost { errno, bytes };
            self.report_of_file(lost.who, what, lost.file, cx);
        }
    }

    /// Reports what happened to a file, with the use and the hard limit of `who`.
    pub fn report_of_file(
        &mut self,
        who: QuotaId,
        what: QuotaEventKind,
        file: QuotaEventFile,
        cx: &QuotaCx<'_>,
    ) {
        let (mut used, mut limit) = (0, None);
        // What is not counted here has no record.
        if let Some(dquot) = self.dquots.find(who) {
            self.recall(dquot, Resource::Blocks, cx);
            let usage = self.dquots[dquot].usage(Resource::Blocks);
            (used, limit) = (usage.reserved, usage.bounds.hard);
        }
        let event = QuotaEvent {
            sequence: 0,
            time: cx.now,
            who,
            resource: Resource::Blocks,
            what,
            used: used.saturating_mul(BLOCK),
            limit: limit.unwrap_or(0).saturating_mul(BLOCK),
            times: 1,
            file: Some(file),
        };
        let singly = self.tuning.singly;
        self.coalescer.report(event, singly, &mut self.events);
    }
}
