//! Events about files: what front ends report, and where the files are.

use super::Quota;
use crate::caller::Caller;
use crate::errno::Errno;
use crate::heat::Heat;
use crate::quota::{LostWrite, QuotaEvent, QuotaEventFile, QuotaEventKind, QuotaId};

impl Quota<'_> {
    /// Reports that `bytes` of a file of user `uid`, which had been acknowledged, could not be
    /// stored; `None` if the user, or how many bytes they are, could not be learned. What is lost
    /// of a file within a second is one event.
    pub fn report_lost(
        &self,
        uid: Option<u32>,
        file: QuotaEventFile,
        bytes: Option<u64>,
        errno: Errno,
    ) {
        let lost = LostWrite {
            who: uid.map_or(QuotaId::UNKNOWN_USER, QuotaId::user),
            file,
            errno,
            bytes,
        };
        self.with_state(|state, cx| state.note_lost(lost, cx));
    }

    /// Reports that `caller` has set a file of `project` to project 0.
    pub fn report_left(&self, project: u32, file: QuotaEventFile, caller: &Caller<'_>) {
        let (uid, pid) = (caller.uid, caller.pid);
        let (who, what) = (
            QuotaId::project(project),
            QuotaEventKind::ProjectLeft { uid, pid },
        );
        self.with_state(|state, cx| state.report_of_file(who, what, file, cx));
    }

    /// Gives events about files the paths that these have now, where no path was known.
    pub(super) fn name_files(&self, events: &mut [QuotaEvent]) {
        let files = events.iter_mut().filter_map(|event| event.file.as_mut());
        let mut nameless: Vec<_> = files.filter(|file| file.path.is_none()).collect();
        // What serves other files has given their paths with the events, as far as there were any.
        if nameless.is_empty() || self.sb.objects.foreign().is_some() {
            return;
        }
        let inodes: Vec<u64> = nameless.iter().map(|file| file.ino).collect();
        // Without an answer the numbers are shown.
        let paths = Heat::of(self.sb).paths(&inodes).unwrap_or_default();
        for file in &mut nameless {
            let found = paths.get(&file.ino).and_then(|found| found.path.clone());
            // Asked after the walk: numbers only go on to later generations, so what was found is
            // this very file.
            file.path = found.filter(|_| self.is_still(file));
        }
    }

    /// Whether the number of a file still belongs to it.
    fn is_still(&self, file: &QuotaEventFile) -> bool {
        let generation = self.sb.run(&Caller::ROOT, |cx, g| {
            Ok(cx.sb.inode(file.ino, g)?.generation())
        });
        file.generation.is_some() && generation.ok() == file.generation
    }
}
