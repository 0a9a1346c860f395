//! What the requests have in common: open files, entries, options.

use crate::convert::{NOTHING, error, file_attr};
use fuser::{FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyEntry};
use hearth::{Attr, Errno, OpenFile, VolumeVfs};
use hearth_fuse::MountOptions;
use hearth_sync::epoch;
use hearth_sync::object::Table;
use std::sync::Arc;
use std::time::Duration;

/// The volume, and what fuser has open of it.
pub struct Peer {
    pub vfs: VolumeVfs,
    pub options: MountOptions,
    files: Table<Arc<OpenFile>>,
}

impl Peer {
    pub fn new(vfs: VolumeVfs, options: MountOptions) -> Peer {
        Peer {
            vfs,
            options,
            files: Table::new(1),
        }
    }

    pub fn writeback(&self) -> bool {
        self.options.writeback != Some(false)
    }

    pub fn insert(&self, file: Arc<OpenFile>) -> FileHandle {
        if self.writeback() {
            let access = match file.flags() & libc::O_ACCMODE {
                libc::O_WRONLY => libc::O_RDWR,
                other => other,
            };
            file.set_flags(file.flags() & !(libc::O_APPEND | libc::O_ACCMODE) | access);
        }
        let held = self.files.insert(|_, _| file);
        let number = held.number();
        held.into_raw_count();
        FileHandle(number)
    }

    pub fn on<R>(
        &self,
        handle: FileHandle,
        work: impl FnOnce(&OpenFile) -> hearth::Result<R>,
    ) -> hearth::Result<R> {
        let guard = epoch::pin();
        self.files
            .get(handle.0, &guard)
            .map_or(Err(Errno::EBADF), |file| work(file))
    }

    pub fn close(&self, handle: FileHandle) {
        let guard = epoch::pin();
        if let Some(object) = self.files.get(handle.0, &guard) {
            self.vfs.release(object, None);
            object.put_many(1);
            self.files.retire(object, &guard);
        }
    }

    pub fn entry(&self, result: hearth::Result<Attr>, reply: ReplyEntry) {
        let options = &self.options;
        match result {
            Ok(attr) => reply.entry_with_ttls(
                &options.attr_timeout,
                &options.entry_timeout,
                &file_attr(&attr),
                Generation(u64::from(attr.generation)),
            ),
            Err(Errno::ENOENT) if !options.negative_timeout.is_zero() => {
                let nothing = FileAttr {
                    ino: INodeNo(0),
                    ..file_attr(&NOTHING)
                };
                let (attr, entry) = (&Duration::ZERO, &options.negative_timeout);
                reply.entry_with_ttls(attr, entry, &nothing, Generation(0));
            }
            Err(errno) => reply.error(error(errno)),
        }
    }

    pub fn keep(&self) -> FopenFlags {
        match self.options.direct_io {
            true => FopenFlags::FOPEN_DIRECT_IO,
            false => FopenFlags::FOPEN_KEEP_CACHE,
        }
    }
}
