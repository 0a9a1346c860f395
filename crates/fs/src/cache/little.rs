//! The write-back of a file of which little is unwritten, on a thread that must not block: what an
//! fsync over a mount does before it leaves the rest to the leader of the commit. See "A commit" in
//! `docs/design/log.md`.

use super::saving::{During, INLINE_PAGES, Saving};
use super::sync::check_unpinned;
use crate::data::Data;
use crate::inode::{Inode, StateBit};
use crate::log::GapWait;
use crate::superblock::Superblock;
use hearth_sync::primitive::atomic::Ordering::{Relaxed, SeqCst};
use hearth_sync::primitive::atomic::fence;

/// A file of at most this many bytes is looked through for unwritten pages in no time.
const LITTLE: u64 = 16 << 20;

impl Superblock {
    /// Begins an fsync without waiting: afterwards everything is durable with the epoch that is
    /// returned. `None` if that would wait, or if nobody would lead the commit.
    pub(crate) fn begin_fsync(&self, inode: &Inode) -> Option<u64> {
        let log = self.log()?;
        check_unpinned().ok()?;
        let begun = self.cache.leader.serves()
            && (crate::is_control(inode.number()) || self.flush_little(inode));
        begun.then(|| log.epoch())
    }

    /// [`Superblock::flush`] for a caller that must not block, of a file of which little is
    /// unwritten. Returns false if it cannot be done without waiting.
    fn flush_little(&self, inode: &Inode) -> bool {
        if !inode.state.has_unrecorded() {
            return true;
        }
        let ino = inode.number();
        let gaps = self.log().map(|log| &log.gaps);
        let is_sparse = gaps.is_some_and(|gaps| gaps.first(ino, GapWait::InFlight).is_some());
        if inode.meta.size() > LITTLE || is_sparse {
            return false;
        }
        let Some(_turn) = self.try_turn(inode) else {
            return false;
        };
        match self.dirty_data(inode) {
            Some(data) => self.save_little(inode, data),
            None => true,
        }
    }

    /// [`Superblock::flush_in_turn`] of as many pages as ride in a record; false if there are more.
    fn save_little(&self, inode: &Inode, data: &Data) -> bool {
        if self.is_over(inode) {
            return true;
        }
        inode.state.clear(StateBit::Dirty);
        // SeqCst: as in `flush_in_turn`.
        fence(SeqCst);
        let (edits, size) = {
            let _inside = inode.gate.read(inode.percpu());
            (inode.contents.edits.load(Relaxed), inode.meta.size())
        };
        let mut saving = Saving::new(self, inode, data, size);
        let is_all = saving.find(0..u64::MAX, INLINE_PAGES + 1).is_none();
        if !is_all || !saving.is_little() {
            return false;
        }
        let Ok(extents) = saving.store(During::Operations) else {
            return false;
        };
        let recorded = self.record_flush(inode, edits, size, extents, During::Operations);
        let is_saved = recorded.is_some();
        recorded.inspect(|&epoch| saving.end(epoch));
        is_saved
    }
}
