//! Writes that return when they are durable: those of files that were opened so, and those that
//! ask for it themselves (`RWF_DSYNC`, `RWF_SYNC`).
//!
//! The kernel follows a write with an FSYNC only where it caches the file and the program waits for
//! the write. For files that are open with `FOPEN_DIRECT_IO`, which are those that a quota may
//! limit, and for asynchronous direct writes it only passes the flags on. A direct write that the
//! program waits for has both: where contents alone are asked for, the FSYNC has nothing left to do
//! ([`Handle::take_synced`]). In between the kernel sends its own time of the write, which is often
//! a little later than the volume's, and would be a second commit.

use crate::dispatch::handles::Handle;
use crate::dispatch::kernel_cache::suid_killer::SuidKiller;
use crate::dispatch::{Context, Dispatcher};
use crate::wait::enospc_retry::retry_enospc;
use crate::wait::outcome::{BlockingClass, InlineReply, Outcome};
use crate::wire::{WRITE_KILL_SUIDGID, WriteIn, WriteOut};
use hearth::{Errno, KernelCache, VfsFile};
use hearth_sync::primitive::Arc;

impl<V: KernelCache> Dispatcher<V> {
    /// A write that returns when it is durable: a worker waits for that. A file that the kernel has
    /// opened alone is `None`.
    pub(super) fn write_through(
        &self,
        cx: &Context<'_>,
        file: Option<Arc<V::File>>,
        args: &WriteIn,
        data: &[u8],
    ) -> Outcome<()> {
        let (vfs, header, data) = (self.vfs.clone(), cx.header, data.to_vec());
        let place = self.place(args, args.offset);
        let kill = args.write_flags & WRITE_KILL_SUIDGID != 0;
        let asked = asked_sync(file.as_deref(), args);
        let (volume, suid_killer) = (self.volume.clone(), SuidKiller::of(self));
        let is_direct = args.flags as i32 & libc::O_DIRECT != 0;
        let (direct_writes, notifier) =
            (Arc::clone(&self.direct_writes), Arc::clone(&self.notifier));
        let (ino, begin) = (cx.ino(), args.offset);
        let (handles, handle) = (Arc::clone(&self.handles), args.fh);
        Outcome::offload(BlockingClass::Io, move || {
            let context = Context::alone(header);
            let mut done = 0;
            let written = retry_enospc(&volume, || {
                let (caller, at, rest) = (context.caller(0), place.after(done), &data[done..]);
                if kill {
                    vfs.block_on(|_| suid_killer.strip(&caller, ino))?;
                }
                done += vfs.block_on(|vfs| match &file {
                    Some(file) => vfs.write(&caller, file, at, rest, kill),
                    None => vfs.write_node(&caller, ino, at, rest, kill),
                })?;
                match done < data.len() {
                    true => Err(Errno::ENOSPC),
                    false => Ok(()),
                }
            });
            if done == 0 {
                written?;
            }
            if let Some(data_only) = asked {
                vfs.block_on(|vfs| match &file {
                    Some(file) => vfs.fsync(file, data_only),
                    None => vfs.syncfs(),
                })?;
            }
            if is_direct {
                handles.with(handle, Handle::set_synced);
            }
            if is_direct && direct_writes.is_read(ino) {
                // Fewer threads than may wait for pages do this.
                notifier.inval_inode(ino, Some(begin..begin.saturating_add(done as u64)));
            }
            Ok(InlineReply::new(&WriteOut {
                size: done as u32,
                padding: 0,
            }))
        })
    }
}

/// The sync that a write asks for itself and its file does not make: whether that of the contents
/// is enough.
pub(super) fn asked_sync(file: Option<&impl VfsFile>, args: &WriteIn) -> Option<bool> {
    let asked = args.flags as i32 & libc::O_SYNC;
    let own = file.map_or(0, VfsFile::flags);
    (asked & !own != 0).then_some(asked != libc::O_SYNC)
}
