//! Ranges of files: where data is, making room, copying.

use crate::dispatch::{Context, Dispatcher, Done};
use crate::reply::Reply;
use crate::room::keep_asking;
use crate::service::Small;
use crate::wire::{
    CopyFileRangeIn, CopyFileRangeOut, FallocateIn, InHeader, LseekIn, LseekOut, PAGE_SIZE,
    WriteOut,
};
use hearth::{Caller, Door, Errno, OpenFile, Origin};
use hearth_sync::primitive::Arc;

/// Larger pieces of work are done by a worker, copies of this size too: of such are those that a
/// ceiling parts.
pub(super) const LARGE: u64 = 4 << 20;
/// Where there are ceilings a copy is done in pieces of this size: each pays for the one before, so
/// that a copy takes its time between them, and no piece comes much too early.
pub(crate) const PIECE: u64 = 4 << 20;

impl Dispatcher {
    pub(crate) fn lseek(
        &self,
        cx: &Context<'_>,
        args: &LseekIn,
        reply: &mut Reply<'_>,
    ) -> Result<Done, Errno> {
        // As it was given to lseek(2): below zero is behind no end.
        let (offset, whence) = (args.offset as i64, args.whence as i32);
        if self.settings.writeback && args.fh != 0 {
            // The kernel asks without having written back, so the volume may lack the end of the
            // file. What is dirty comes first; a worker waits for it, since it comes as requests,
            // which a ceiling may delay.
            let (file, door, ino) = (self.file(args.fh)?, self.door.clone(), cx.ino());
            let notifier = Arc::clone(&self.notifier);
            return Ok(Done::waiting(move || {
                notifier.inval_inode(ino, Some(0..u64::MAX));
                let offset = door.lseek(&file, offset, whence)?;
                Ok(Small::new(&LseekOut { offset }))
            }));
        }
        let offset = self.on_file(
            args.fh,
            |file| self.door.lseek(file, offset, whence),
            // Opened by the kernel alone: it falls back to "all data" by itself.
            || Err(Errno(libc::ENOSYS)),
        )?;
        reply.push(&LseekOut { offset })?;
        Ok(Done::Reply)
    }

    pub(crate) fn fallocate(&self, cx: &Context<'_>, args: &FallocateIn) -> Result<Done, Errno> {
        let file = self.file_or_inode(cx, args.fh, cx.ino())?;
        let (args, header) = (*args, cx.header);
        let door = self.door.clone();
        let work = move || {
            let caller = caller(&header);
            door.fallocate(
                &caller,
                &file.file,
                args.mode as i32,
                args.offset,
                args.length,
            )
        };
        if args.length > LARGE {
            let volume = self.volume.clone();
            let work = move || keep_asking(&volume, &work).map(|()| Small::default());
            return Ok(Done::io(work));
        }
        work()?;
        Ok(Done::Reply)
    }

    pub(crate) fn copy_file_range(
        &self,
        cx: &Context<'_>,
        args: &CopyFileRangeIn,
        wide: bool,
        reply: &mut Reply<'_>,
    ) -> Result<Done, Errno> {
        // The older request has 32 bits for the answer.
        let mut most = match wide {
            true => u64::MAX,
            false => u64::from(u32::MAX) - PAGE_SIZE as u64,
        };
        if self.volume.scheduler().has_ceilings() {
            most = most.min(PIECE);
        }
        let copy = Copy {
            door: self.door.clone(),
            from: self.file_or_inode(cx, args.fh_in, cx.ino())?,
            to: self.file_or_inode(cx, args.fh_out, args.nodeid_out)?,
            header: cx.header,
            args: CopyFileRangeIn {
                len: args.len.min(most),
                ..*args
            },
        };
        if copy.args.len >= LARGE {
            let volume = self.volume.clone();
            return Ok(Done::io(move || {
                let copied = keep_asking(&volume, || copy.run())?;
                Ok(copied_out(copied, wide))
            }));
        }
        reply.bytes(copied_out(copy.run()?, wide).bytes())?;
        Ok(Done::Reply)
    }

    /// The open file of a handle, or for a kernel that opens files alone one that ends with the
    /// request.
    fn file_or_inode(&self, cx: &Context<'_>, handle: u64, ino: u64) -> Result<Opened, Errno> {
        if handle != 0 {
            return Ok(Opened {
                file: self.file(handle)?,
                until_drop: None,
            });
        }
        let file = self.door.open(&cx.caller(0), ino, libc::O_RDWR)?;
        Ok(Opened {
            file,
            until_drop: Some(self.door.clone()),
        })
    }
}

/// An open file for the length of a request.
struct Opened {
    file: Arc<OpenFile>,
    /// Present if it was opened for the request.
    until_drop: Option<Door>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(door) = &self.until_drop {
            door.release(&self.file, None);
        }
    }
}

struct Copy {
    door: Door,
    from: Opened,
    to: Opened,
    header: InHeader,
    args: CopyFileRangeIn,
}

impl Copy {
    fn run(&self) -> Result<u64, Errno> {
        let args = &self.args;
        self.door.copy_file_range(
            &caller(&self.header),
            (&self.from.file, args.off_in),
            (&self.to.file, args.off_out),
            args.len,
            args.flags,
        )
    }
}

fn copied_out(copied: u64, wide: bool) -> Small {
    match wide {
        true => Small::new(&CopyFileRangeOut {
            bytes_copied: copied,
        }),
        false => Small::new(&WriteOut {
            size: copied as u32,
            padding: 0,
        }),
    }
}

/// The caller of a request that is worked on after its bytes are gone; groups come with creations
/// only.
pub(super) fn caller(header: &InHeader) -> Caller<'static> {
    Caller {
        uid: header.uid,
        gid: header.gid,
        groups: &[],
        pid: header.pid,
        umask: 0,
        origin: Origin::Kernel,
    }
}
