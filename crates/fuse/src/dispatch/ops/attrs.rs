//! Attributes of inodes and of the volume.

use super::ranges::{LARGE, caller};
use crate::dispatch::kernel_cache::cached_mtime::CachedMtimes;
use crate::dispatch::{Context, Dispatcher, OpResult};
use crate::wait::enospc_retry::retry_enospc;
use crate::wait::outcome::{BlockingClass, InlineReply, Outcome};
use crate::wire::reply::{Reply, statfs_out};
use crate::wire::{SetattrIn, fattr};
use hearth::{Attr, Caller, KernelCache, SetAttr, SetTime, Time, VfsError, VfsResult};
use hearth_sync::primitive::Arc;

impl<V: KernelCache> Dispatcher<V> {
    pub(crate) fn getattr(&self, cx: &Context<'_>, reply: &mut Reply<'_>) -> OpResult {
        let attr = self.vfs.getattr(&cx.caller(0), cx.ino())?;
        self.prune_again(attr.ino);
        reply.push(&self.timeouts(attr.ino, attr.size).attr_out(&attr))?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn statx(&self, cx: &Context<'_>, reply: &mut Reply<'_>) -> OpResult {
        let attr = self.vfs.getattr(&cx.caller(0), cx.ino())?;
        self.prune_again(attr.ino);
        reply.push(&self.timeouts(attr.ino, attr.size).statx_out(&attr))?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn setattr(
        &self,
        cx: &Context<'_>,
        args: &SetattrIn,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        let (mut change, caller) = (set_attr(args), cx.caller(0));
        if args.valid & CHANGES == 0 {
            // chown(2) with neither owner takes setuid and setgid away, which the kernel leaves to
            // us without a word. It sends the same before it allocates for a stranger, who may not
            // do that here: allocating does it.
            let uid = || Ok::<_, VfsError>(self.vfs.getattr(&cx.caller(0), cx.ino())?.uid);
            change.kill_suidgid |= caller.privileged() || uid()? == caller.uid;
            // And before a stranger's write to a file that is passed through, which nobody else
            // would take them away for: it has the rights of whoever opened the file first.
            if !change.kill_suidgid && self.is_written_below(cx.ino()) {
                self.strip_suidgid(&caller, cx.ino())?;
            }
        }
        if self.settings.no_open && args.valid & fattr::FH == 0 && change.size == Some(0) {
            // `O_TRUNC`, which moves times of an empty file too; `truncate` would come the same.
            change.mtime = change.mtime.or(Some(SetTime::Now));
        }
        if let (Some(SetTime::At(time)), None) = (change.mtime, change.atime)
            && self.cached_mtimes.has(cx.ino(), time)
        {
            change.mtime = None;
        }
        if self.settings.writeback && args.valid & (CHANGES | fattr::FH) == SETTLES {
            // One that is believed already is not stored, and no change is this one.
            let changes = change.mtime.is_some();
            let before = changes
                .then(|| self.synced_time(args.fh, cx.ino()))
                .flatten();
            let attr = self.settle_times(cx, &caller, change)?;
            if let Some(before) = before {
                self.has_settled(args.fh, before, attr.mtime);
            }
            reply.push(&self.timeouts(attr.ino, attr.size).attr_out(&attr))?;
            return Ok(Outcome::Done(()));
        }
        let handle = if args.valid & fattr::FH != 0 {
            args.fh
        } else {
            0
        };
        if let Some(size) = change.size
            && self.cuts_much(cx.ino(), size)?
        {
            return self.cut(cx, handle, change, size);
        }
        let attr = self.on_file(
            handle,
            |file| self.vfs.setattr(&caller, cx.ino(), Some(file), &change),
            || self.vfs.setattr(&caller, cx.ino(), None, &change),
        )?;
        tell(&self.cached_mtimes, &change, &attr);
        reply.push(&self.timeouts(attr.ino, attr.size).attr_out(&attr))?;
        Ok(Outcome::Done(()))
    }

    /// The times that the kernel keeps itself.
    fn settle_times(
        &self,
        cx: &Context<'_>,
        caller: &Caller<'_>,
        change: SetAttr,
    ) -> VfsResult<Attr> {
        let ino = cx.ino();
        let Some(SetTime::At(time)) = change.mtime else {
            return self.vfs.settle_times(caller, ino, &change);
        };
        let store = |mtime| {
            let change = SetAttr {
                mtime: Some(mtime),
                ..change.clone()
            };
            self.vfs.settle_times(caller, ino, &change)
        };
        self.cached_mtimes.settle(ino, time, store)
    }

    /// Whether a new size gives back so much that others should not wait for it.
    fn cuts_much(&self, ino: u64, size: u64) -> VfsResult<bool> {
        if self.vfs.may_block() {
            // This thread is one that others do not wait for.
            return Ok(false);
        }
        let attr = self.vfs.getattr(&Caller::ROOT, ino)?;
        if size > attr.size {
            return Ok(false);
        }
        // Of a file with holes no more than there is; what is behind the end goes as well.
        let allocated = attr.blocks.saturating_mul(512);
        let cut = attr.size.max(allocated) - size;
        Ok(cut.min(allocated) > LARGE)
    }

    /// A worker cuts, and changes whatever else is to be changed in the same step.
    fn cut(&self, cx: &Context<'_>, handle: u64, change: SetAttr, size: u64) -> OpResult {
        let file = match handle {
            0 => None,
            handle => Some(self.file(handle)?),
        };
        let (vfs, header) = (self.vfs.clone(), cx.header);
        let timeouts = self.timeouts(cx.ino(), size);
        let (volume, cached_mtimes) = (self.volume.clone(), Arc::clone(&self.cached_mtimes));
        Ok(Outcome::offload(BlockingClass::Whole, move || {
            let caller = caller(&header);
            let attr = retry_enospc(&volume, || {
                vfs.block_on(|vfs| vfs.setattr(&caller, header.nodeid, file.as_deref(), &change))
            })?;
            tell(&cached_mtimes, &change, &attr);
            Ok(InlineReply::new(&timeouts.attr_out(&attr)))
        }))
    }

    pub(crate) fn statfs(&self, cx: &Context<'_>, reply: &mut Reply<'_>) -> OpResult {
        reply.push(&statfs_out(&self.vfs.statfs(&cx.caller(0), cx.ino())?))?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn access(&self, cx: &Context<'_>, mask: u32) -> OpResult {
        self.vfs.access(&cx.caller(0), cx.ino(), mask)?;
        Ok(Outcome::Done(()))
    }
}

/// The kernel has cached what it has set.
fn tell(cached_mtimes: &CachedMtimes, change: &SetAttr, attr: &Attr) {
    match change.mtime {
        Some(SetTime::At(time) | SetTime::NoEarlier(time)) => cached_mtimes.set(attr.ino, time),
        Some(SetTime::Now) => cached_mtimes.set(attr.ino, attr.mtime),
        None => {}
    }
}

/// What a SETATTR asks to be changed.
const CHANGES: u32 = fattr::MODE
    | fattr::UID
    | fattr::GID
    | fattr::SIZE
    | fattr::ATIME
    | fattr::ATIME_NOW
    | fattr::MTIME
    | fattr::MTIME_NOW;

/// What comes of a file that the kernel has written back, and of no call of a program: times that
/// programs set come without the handle.
const SETTLES: u32 = fattr::MTIME | fattr::FH;

fn set_attr(args: &SetattrIn) -> SetAttr {
    let has = |bit: u32| args.valid & bit != 0;
    let time = |at: u32, now: u32, sec: u64, nsec: u32| match (has(now), has(at)) {
        (true, _) => Some(SetTime::Now),
        (false, true) => Some(SetTime::At(Time {
            sec: sec as i64,
            nsec,
        })),
        (false, false) => None,
    };
    SetAttr {
        mode: has(fattr::MODE).then_some((args.mode & 0o7777) as u16),
        uid: has(fattr::UID).then_some(args.uid),
        gid: has(fattr::GID).then_some(args.gid),
        size: has(fattr::SIZE).then_some(args.size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, args.atime, args.atimensec),
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, args.mtime, args.mtimensec),
        ctime: has(fattr::CTIME).then_some(Time {
            sec: args.ctime as i64,
            nsec: args.ctimensec,
        }),
        kill_suidgid: has(fattr::KILL_SUIDGID),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_fields_are_set_and_now_wins_over_a_time() {
        let args = SetattrIn {
            valid: fattr::MODE | fattr::ATIME | fattr::ATIME_NOW | fattr::MTIME,
            mode: 0o104755,
            size: 7,
            atime: 1,
            mtime: (-2i64) as u64,
            mtimensec: 3,
            ..Default::default()
        };
        let set = set_attr(&args);
        assert_eq!((set.mode, set.size, set.uid), (Some(0o4755), None, None));
        assert_eq!(set.atime, Some(SetTime::Now));
        assert_eq!(set.mtime, Some(SetTime::At(Time { sec: -2, nsec: 3 })));
        assert_eq!((set.ctime, set.kill_suidgid), (None, false));
    }
}
