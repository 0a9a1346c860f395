//! Extended attributes of inodes in use leave memory and come back: what programs have open stays,
//! and may have a thousand times the bytes of an inode. `docs/design/eviction.md`, "Attributes".

use super::record::extra_of;
use crate::errno::{Errno, Result};
use crate::inode::{Inode, XattrsAcls};
use crate::superblock::Superblock;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::primitive::atomic::Ordering::Relaxed;

impl Superblock {
    /// Drops the extended attributes of an inode that stays in memory, if they are large and the
    /// backend has them; returns the bytes freed. The caller holds no lock.
    pub(super) fn evict_attributes(&self, inode: &Inode, g: &Guard) -> u64 {
        let large = || inode.extra(g).filter(|extra| extra.may_leave());
        let Some(log) = self.log().filter(|_| large().is_some()) else {
            return 0;
        };
        let _change = inode.meta.change.lock();
        // Under this lock no inode leaves the table: one that has left is not counted any more.
        let _io = self.inode_io_lock(inode.number()).lock_guard();
        let found = self.objects.inodes.get(inode.number(), g);
        let is_there = found.is_some_and(|found| std::ptr::eq(found, inode));
        if !is_there || log.is_tag_pending(inode.meta.logged.load(Relaxed)) {
            return 0;
        }
        let Some(extra) = large() else { return 0 };
        let gone = XattrsAcls {
            is_at_backend: true,
            ..XattrsAcls::default()
        };
        let freed = extra.memory() - gone.memory();
        inode.move_extra(gone, g);
        self.cache.note_left(inode.number());
        self.cache.mem_usage.add(-(freed as i64));
        freed as u64
    }

    /// Fetches the extended attributes of an inode. The caller has a reference, and nothing is
    /// pinned.
    pub(super) fn fetch_attributes(&self, inode: &Inode) -> Result<()> {
        let ino = inode.number();
        loop {
            // Before the backend is asked: if they come back and leave again meanwhile, they may
            // have changed.
            let left = self.cache.left(ino);
            if !inode.has_extra_at_backend(&pin()) {
                return Ok(());
            }
            let kept = self.objects.backend.load_inode(ino)?;
            let kept = kept.filter(|kept| kept.attrs.generation == inode.generation());
            let extra = extra_of(&kept.ok_or(Errno::ESTALE)?);
            let g = pin();
            let _change = inode.meta.change.lock();
            if !inode.has_extra_at_backend(&g) {
                return Ok(());
            }
            if self.cache.left(ino) == left {
                let before = inode.extra(&g).map_or(0, XattrsAcls::memory);
                let came = extra.memory() as i64 - before as i64;
                inode.move_extra(extra, &g);
                self.cache.mem_usage.add(came);
                return Ok(());
            }
        }
    }
}
