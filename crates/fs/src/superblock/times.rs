//! The times of changes, which go back when somebody sets the clock back.

use super::Superblock;
use crate::attr::Time;
use crate::clock::is_behind;
use crate::inode::{Inode, InodeExt, TOUCHED};
use crate::number::is_control;

impl Superblock {
    /// Notes that contents changed at `now`. The caller holds the inode.
    #[inline]
    pub fn touch(&self, inode: &Inode, now: Time) {
        let now = now.nanos();
        let before = inode.touch(now);
        self.let_times_go_back(inode, now, before);
    }

    /// After a change of contents at `now`, in nanoseconds: `before` is what this core had as the
    /// time of the one before.
    #[inline]
    pub fn let_times_go_back(&self, inode: &Inode, now: u64, before: u64) {
        if before != now && self.objects.clock.may_be_behind(now, before) {
            self.restamp(inode, true);
        }
    }

    /// Before `now` is stored as the time of a change of attributes.
    #[inline]
    pub fn let_ctime_go_back(&self, inode: &Inode, now: Time) {
        if self.objects.clock.may_be_behind(now.nanos(), 0) {
            self.restamp(inode, false);
        }
    }

    /// Makes room for times that are earlier than those that the inode has, if somebody has set the
    /// clock back: the latest change of contents is kept as a maximum, and the time of change shown
    /// is not before it, so both would stand still until the clock is there again. `touches`: the
    /// contents have just changed; else the caller stores the time of change itself.
    #[cold]
    #[inline(never)]
    fn restamp(&self, inode: &Inode, touches: bool) {
        let (touched, shown) = (inode.touched(), inode.times());
        // Later than what was read, by a clock that nobody sets: an operation that was interrupted
        // since it looked at the clock sets nothing back.
        let now = self.now();
        let latest = match touches {
            true => touched.max(shown.ctime.nanos()),
            false => touched,
        };
        if !is_behind(now.nanos(), latest) {
            return;
        }
        inode.percpu().reset_max(TOUCHED, 0);
        if !is_control(inode.number()) {
            self.record_untouched(inode);
        }
        self.change_attrs(inode, |fields| match touches {
            true => (fields.mtime, fields.ctime) = (now, now),
            false => fields.mtime = shown.mtime,
        });
    }
}
