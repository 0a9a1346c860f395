//! Which tenant a request belongs to.

use super::Superblock;
use crate::tenant::TenantId;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::Weak;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};

/// Whether an inode was ever given a project. Every request reads this. It is stored once.
pub(crate) struct Projects(AtomicBool);

impl Projects {
    pub const fn none() -> Projects {
        Projects(AtomicBool::new(false))
    }
}

impl Superblock {
    /// Records that an inode is in a project, or is about to be.
    pub fn note_project(&self, project: u32) {
        // Relaxed: it need only take effect soon. It is stored once, so that the cache line stays
        // with its readers.
        if project != 0 && !self.projects.0.load(Ordering::Relaxed) {
            self.projects.0.store(true, Ordering::Relaxed);
        }
    }

    /// The tenant of a request by `uid` on inode `ino`: the inode's project, else the user.
    #[inline]
    pub fn tenant_of(&self, ino: u64, uid: u32) -> TenantId {
        // Relaxed: see `note_project`.
        match self.projects.0.load(Ordering::Relaxed) {
            true => self.project_of(ino).unwrap_or(TenantId::User(uid)),
            false => TenantId::User(uid),
        }
    }

    fn project_of(&self, ino: u64) -> Option<TenantId> {
        // A volume beside a served directory takes a reference here, which other cores write too:
        // each of its requests makes system calls, which cost far more.
        let project = match self.quotas.counter.get().and_then(Weak::upgrade) {
            Some(counter) => counter.project_of(ino),
            None => self.objects.inodes.get(ino, &pin())?.meta.project(),
        };
        (project != 0).then_some(TenantId::Project(project))
    }
}
