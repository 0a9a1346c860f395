//! Writes that return when they are durable: those of files that were opened so, and those that
//! ask for it themselves (`RWF_DSYNC`, `RWF_SYNC`).
//!
//! The kernel follows a write with an FSYNC only where it caches the file and the program waits for
//! the write. For files that are open with `FOPEN_DIRECT_IO`, which are those that a quota may
//! limit, and for asynchronous direct writes it only passes the flags on. A direct write that the
//! program waits for has both, and the FSYNC has nothing left to do ([`Handle::take_synced`]). In
//! between the kernel sends its own time of the write, which is often a little later than the
//! volume's, and would be a second commit. Within a tick that FSYNC does not wait for it: after a
//! crash the file may have the volume's time of its last write. For any other change of its
//! attributes the FSYNC commits.
//!
//! Behind an asynchronous direct write the kernel sends none, and the next FSYNC is the program's
//! own, which covers whatever was done before it: names that were made in between, other files.
//! Nothing tells one from the other. So an FSYNC has nothing left to do only where no record waits
//! for a commit but of the attributes of the file: [`hearth::Vfs::is_durable_but_for_attrs`].
//! Beside others who change something it shares the next commit with them.

use crate::dispatch::handles::{Handle, Synced};
use crate::dispatch::kernel_cache::cached_mtime::TICK_NS;
use crate::dispatch::{Dispatcher, OpResult};
use crate::wait::outcome::{BlockingClass, InlineReply, Outcome};
use crate::wire::{WriteIn, WriteOut};
use hearth::{Caller, Errno, KernelCache, Time, VfsFile};
use hearth_sync::primitive::Arc;

impl<V: KernelCache> Dispatcher<V> {
    /// Whether a write returns when it is durable.
    pub(super) fn is_durable_write(&self, args: &WriteIn) -> bool {
        let is_opened_so = |handle: &Handle<V::File>| handle.file.is_synchronous();
        args.flags as i32 & libc::O_SYNC != 0
            || self.handles.with(args.fh, is_opened_so) == Some(true)
    }

    /// What was written is made durable, and then replied to. The volume has it: nothing that waits
    /// holds a copy.
    pub(super) fn written_through(&self, ino: u64, args: &WriteIn, written: WriteOut) -> OpResult {
        let is_direct = args.flags as i32 & libc::O_DIRECT != 0;
        let (handles, handle) = (Arc::clone(&self.handles), args.fh);
        // A file that the kernel has opened alone has no handle.
        let file = (handle != 0).then(|| self.file(handle)).transpose()?;
        // Before the commit, which has them.
        let attr_changes = file.as_ref().and_then(|file| self.vfs.attr_changes(file));
        let end = move || {
            if is_direct {
                handles.with(handle, |handle| handle.set_synced(attr_changes));
            }
            InlineReply::new(&written)
        };
        let range = args.offset..args.offset.saturating_add(written.size.into());
        let is_read = is_direct && self.direct_writes.is_read(ino);
        if let Some(file) = &file
            && !is_read
            && let Some(point) = self.vfs.begin_fsync(file)
        {
            let vfs = self.vfs.clone();
            return Ok(Outcome::later(move |finish| {
                let reply = move |synced: Result<(), Errno>| finish(synced.map(|()| end()));
                vfs.when_durable(point, Box::new(reply));
            }));
        }
        let data_only = args.flags as i32 & libc::O_SYNC != libc::O_SYNC;
        let (vfs, notifier) = (self.vfs.clone(), Arc::clone(&self.notifier));
        Ok(Outcome::offload(BlockingClass::Io, move || {
            vfs.block_on(|vfs| match &file {
                Some(file) => vfs.fsync(file, data_only),
                None => vfs.syncfs(),
            })?;
            if is_read {
                // Fewer threads than may wait for pages do this.
                notifier.inval_inode(ino, Some(range.clone()));
            }
            Ok(end())
        }))
    }
}

impl<V: KernelCache> Dispatcher<V> {
    /// Whether no attribute has changed since a write made them durable.
    pub(super) fn has_durable_attrs(&self, file: &V::File, synced: Synced) -> bool {
        synced.attr_changes.is_some() && synced.attr_changes == self.vfs.attr_changes(file)
    }

    /// The time that a file has before the kernel sends its own, and how often its attributes had
    /// changed by then, if a write through this handle has made them durable.
    pub(super) fn synced_time(&self, handle: u64, ino: u64) -> Option<(u32, Time)> {
        let changes = self.handles.with(handle, |handle| {
            let changes = self.vfs.attr_changes(&handle.file)?;
            handle.has_synced(changes).then_some(changes)
        });
        let changes = changes.flatten()?;
        let attr = self.vfs.getattr(&Caller::ROOT, ino).ok()?;
        Some((changes, attr.mtime))
    }

    /// The kernel has sent its own time `now`: within a tick that is the same.
    pub(super) fn has_settled(&self, handle: u64, before: (u32, Time), now: Time) {
        let (changes, time) = before;
        if now.nanos().abs_diff(time.nanos()) > TICK_NS {
            return;
        }
        self.handles.with(handle, |handle| {
            // It alone has changed.
            if self.vfs.attr_changes(&handle.file) == Some(changes.wrapping_add(1)) {
                handle.excuse_change(changes);
            }
        });
    }
}

/// The sync that a write asks for itself and its file does not make: whether that of the contents
/// is enough.
pub(super) fn asked_sync(file: &impl VfsFile, args: &WriteIn) -> Option<bool> {
    let asked = args.flags as i32 & libc::O_SYNC;
    (asked & !file.flags() != 0).then_some(asked != libc::O_SYNC)
}
