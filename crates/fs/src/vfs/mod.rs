//! What front ends call: a volume by inode numbers, names and handles, with the verbs of Linux.
//!
//! [`Vfs`] is the trait. [`KernelCache`] adds what a kernel that caches in front needs. The core
//! implements both ([`VolumeVfs`]), and so does a directory of the host (crate `hearth-host`).
//! [`crate::Volume`] gives a front end the rest: scheduler, tenants, statistics, control files,
//! observers.

mod error;
mod kernel_cache;
mod sync_point;
mod volume;
mod volume_files;
mod volume_impl;
mod wait_mode;

pub use error::{BlockingWork, Miss, VfsError, VfsResult};
pub use kernel_cache::KernelCache;
pub use sync_point::{SyncPoint, WhenDurable};
pub use volume::VolumeVfs;
pub use wait_mode::{Blocking, NonBlocking};

use crate::attr::{Attr, DirEntry, FsXAttr, Kind, SetAttr, StatFs};
use crate::caller::Caller;
use crate::errno::Errno;
use crate::locks::{Interrupt, LockRequest};
use crate::ops::io::WriteAt;
use hearth_sync::primitive::Arc;

/// Operations by inode number, for front ends such as FUSE. Only calls that say so block. Any other
/// call that would block returns [`VfsError::Miss`] and has changed nothing.
///
/// Every call that returns an [`Attr`] of a name (`lookup` and the creators) takes one reference on
/// that inode, which [`Vfs::forget`] gives back. The root is [`crate::ROOT`].
///
/// Errors are those of the Linux call of the same name, and `ESTALE` for a number that means
/// nothing.
pub trait Vfs: Clone + Send + Sync + 'static {
    /// An open file description.
    type File: VfsFile;

    /// Fetches what a call missed. May block.
    ///
    /// # Errors
    /// The call fails with this error.
    fn fetch(&self, miss: &Miss) -> Result<(), Errno>;

    /// Repeats a call until it misses nothing more. May block.
    ///
    /// # Errors
    /// Those of the call, and of fetching.
    fn block_on<T>(&self, mut call: impl FnMut(&Self) -> VfsResult<T>) -> Result<T, Errno> {
        loop {
            match call(self) {
                Ok(value) => return Ok(value),
                Err(VfsError::Errno(errno)) => return Err(errno),
                Err(VfsError::Miss(miss)) => self.fetch(&miss)?,
            }
        }
    }

    /// Whether [`Vfs::fsync`] and [`Vfs::syncfs`] may wait for the backend; a front end then calls
    /// them from threads that may wait.
    fn sync_waits(&self) -> bool;

    /// Whether every call but [`Vfs::forget`] and [`Vfs::is_known`] may block, for as long as a
    /// device takes. A front end then makes them on threads that may wait.
    fn may_block(&self) -> bool {
        false
    }

    /// How many calls that may block there is room for at a time, for a front end that would make
    /// more.
    fn most_calls(&self) -> usize {
        usize::MAX
    }

    /// The inode of `name` in `parent`.
    fn lookup(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> VfsResult<Attr>;

    /// Takes one more reference on an inode, for listings that return attributes.
    fn grab(&self, ino: u64) -> VfsResult<Attr>;

    /// [`Vfs::grab`] for an entry of a listing of `parent`, which showed the name with the number
    /// `shown`.
    fn grab_listed(&self, _parent: u64, _name: &[u8], shown: u64) -> VfsResult<Attr> {
        self.grab(shown)
    }

    /// Brings inodes of a listing into memory at once, so that each [`Vfs::grab_listed`] finds its
    /// own. Those that cannot be had stay away.
    ///
    /// # Errors
    /// [`VfsError::Miss`]: some are not there. Fetching them once is enough.
    fn bring_listed(&self, _shown: &[u64]) -> VfsResult<()> {
        Ok(())
    }

    /// Gives back `n` references on an inode.
    fn forget(&self, ino: u64, n: u64);

    /// Whether there are references to the inode that lookups took.
    fn is_known(&self, ino: u64) -> bool;

    /// Gives back every reference that lookups took. For the end of a front end whose kernel is
    /// gone and has not forgotten them. No other front end may be using the volume by number.
    fn forget_all(&self);

    /// Attributes.
    fn getattr(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<Attr>;

    /// Changes attributes. Returns the new ones.
    fn setattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        file: Option<&Self::File>,
        set: &SetAttr,
    ) -> VfsResult<Attr>;

    /// Target of a symbolic link.
    fn readlink(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<Box<[u8]>>;

    /// Makes a file, fifo, socket or device.
    fn mknod(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
    ) -> VfsResult<Attr>;

    /// Makes a directory.
    fn mkdir(&self, caller: &Caller<'_>, parent: u64, name: &[u8], mode: u16) -> VfsResult<Attr>;

    /// Makes a symbolic link.
    fn symlink(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> VfsResult<Attr>;

    /// Gives inode `ino` the name `name` in `parent`. Fails with `ENOENT` if the inode has lost its
    /// last name, which a kernel may learn late.
    fn link(&self, caller: &Caller<'_>, ino: u64, parent: u64, name: &[u8]) -> VfsResult<Attr>;

    /// Removes a name.
    fn unlink(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> VfsResult<()>;

    /// Removes an empty directory.
    fn rmdir(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> VfsResult<()>;

    /// Renames; `flags` are `RENAME_*`.
    fn rename(
        &self,
        caller: &Caller<'_>,
        from: u64,
        name: &[u8],
        to: u64,
        new_name: &[u8],
        flags: u32,
    ) -> VfsResult<()>;

    /// Returns when everything is durable.
    fn syncfs(&self) -> VfsResult<()>;

    /// Space of the volume, or of the limited project that `ino` is in.
    fn statfs(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<StatFs>;

    /// Whether the caller may do `mask` (`R_OK`, `W_OK`, `X_OK`).
    fn access(&self, caller: &Caller<'_>, ino: u64, mask: u32) -> VfsResult<()>;

    /// Value of an extended attribute.
    fn getxattr(&self, caller: &Caller<'_>, ino: u64, name: &[u8]) -> VfsResult<Box<[u8]>>;

    /// Sets an extended attribute; `flags` are `XATTR_*`.
    fn setxattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        name: &[u8],
        value: &[u8],
        flags: i32,
        kill_sgid: bool,
    ) -> VfsResult<()>;

    /// Names of extended attributes, a NUL behind each.
    fn listxattr(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<Vec<u8>>;

    /// Removes an extended attribute.
    fn removexattr(&self, caller: &Caller<'_>, ino: u64, name: &[u8]) -> VfsResult<()>;

    /// `FS_*_FL` flags.
    fn get_flags(&self, ino: u64) -> VfsResult<u32>;

    /// Sets `FS_*_FL` flags.
    fn set_flags(&self, caller: &Caller<'_>, ino: u64, flags: u32) -> VfsResult<()>;

    /// Flags and project id.
    fn get_fsxattr(&self, ino: u64) -> VfsResult<FsXAttr>;

    /// Sets flags and project id.
    fn set_fsxattr(&self, caller: &Caller<'_>, ino: u64, new: &FsXAttr) -> VfsResult<()>;

    /// Opens an inode; `flags` are `O_*`. To be closed by [`Vfs::release`].
    fn open(&self, caller: &Caller<'_>, ino: u64, flags: i32) -> VfsResult<Arc<Self::File>>;

    /// Makes and opens a file.
    fn create(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        mode: u16,
        flags: i32,
    ) -> VfsResult<(Attr, Arc<Self::File>)>;

    /// Makes and opens a file without a name.
    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        mode: u16,
        flags: i32,
    ) -> VfsResult<(Attr, Arc<Self::File>)>;

    /// Reads at `off`. Returns the bytes read.
    fn read(&self, file: &Self::File, off: u64, out: &mut [u8]) -> VfsResult<usize>;

    /// Writes at `place`, which follows from the kernel's flags of the file. Returns the bytes
    /// written. Where the file [`VfsFile::is_synchronous`] they are durable after [`Vfs::fsync`],
    /// which the caller makes: it need not hold the data meanwhile.
    ///
    /// # Errors
    /// `EPERM` before the end of a file that [`KernelCache::appends_only`].
    fn write(
        &self,
        caller: &Caller<'_>,
        file: &Self::File,
        place: WriteAt,
        data: &[u8],
        kill_suidgid: bool,
    ) -> VfsResult<usize>;

    /// [`Vfs::read`] without an open file, for front ends that do not open files.
    fn read_node(&self, ino: u64, off: u64, out: &mut [u8]) -> VfsResult<usize>;

    /// [`Vfs::write`] without an open file, so the flags of an open are unknown. An append-only
    /// file is written to at its end.
    fn write_node(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        place: WriteAt,
        data: &[u8],
        kill_suidgid: bool,
    ) -> VfsResult<usize>;

    /// Releases the record locks of `owner`, after a descriptor was closed.
    fn flush(&self, file: &Self::File, owner: u64) -> VfsResult<()>;

    /// Ends an open file at its last close; `owner` held flocks through it.
    fn release(&self, file: &Self::File, owner: Option<u64>);

    /// Returns when the file's contents, and unless `data_only` its attributes, are durable.
    fn fsync(&self, file: &Self::File, _data_only: bool) -> VfsResult<()>;

    /// Whether the contents of a file are known to be durable as they are now, and with them all
    /// that has happened before but changes of its attributes: a sync of the contents alone has
    /// nothing to do.
    fn is_durable_but_for_attrs(&self, _file: &Self::File) -> bool {
        false
    }

    /// How often the attributes of a file have changed, but for its size and for the times that a
    /// change of its contents brings. `None`: nobody counts.
    fn attr_changes(&self, _file: &Self::File) -> Option<u32> {
        None
    }

    /// Begins [`Vfs::fsync`] without waiting. `None` if that is not possible: much is unwritten,
    /// somebody else writes the file back, or nothing is ever waited for.
    fn begin_fsync(&self, _file: &Self::File) -> Option<SyncPoint> {
        None
    }

    /// Calls `then` when everything up to a point that [`Vfs::begin_fsync`] gave is durable, or
    /// with the error of the commit: at once, or from another thread.
    fn when_durable(&self, _point: SyncPoint, then: WhenDurable) {
        then(Ok(()));
    }

    /// Calls `f` for the entries after `cookie`, `.` and `..` first, until it returns false for
    /// one. That entry was not taken.
    fn readdir(
        &self,
        file: &Self::File,
        cookie: u64,
        f: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> VfsResult<()>;

    /// Next data or hole at or after `off`; `whence` is `SEEK_DATA` or `SEEK_HOLE`.
    fn lseek(&self, file: &Self::File, off: i64, whence: i32) -> VfsResult<u64>;

    /// `fallocate(2)`.
    fn fallocate(
        &self,
        caller: &Caller<'_>,
        file: &Self::File,
        mode: i32,
        off: u64,
        len: u64,
    ) -> VfsResult<()>;

    /// Whether a [`Vfs::fallocate`] of a long range may be split into calls for its parts. It may
    /// not in modes that take away what there is, move what lies behind, or make the backend forget
    /// the file.
    fn allocates_in_parts(&self, mode: i32) -> bool;

    /// Fails if it is known beforehand that this range cannot be allocated: it is not allowed, or
    /// there is no room for it.
    fn check_allocate(&self, file: &Self::File, mode: i32, off: u64, len: u64) -> VfsResult<()>;

    /// The most of `len` bytes that a copy from here to there would do, or the error with which it
    /// would fail.
    fn check_copy(
        &self,
        from: (&Self::File, u64),
        to: (&Self::File, u64),
        len: u64,
    ) -> VfsResult<u64>;

    /// Copies between files. Returns the bytes copied. The kernel in front has already refused a
    /// target with `O_APPEND`.
    fn copy_file_range(
        &self,
        caller: &Caller<'_>,
        from: (&Self::File, u64),
        to: (&Self::File, u64),
        len: u64,
        flags: u64,
    ) -> VfsResult<u64>;

    /// The lock that is in the way of `request`, if any.
    fn getlk(&self, file: &Self::File, request: &LockRequest) -> VfsResult<Option<LockRequest>>;

    /// Takes or gives back a lock. On a conflict the call fails with `EAGAIN` without `wait`; with
    /// it, the calling thread waits.
    fn setlk(
        &self,
        file: &Self::File,
        request: &LockRequest,
        wait: Option<&Interrupt>,
    ) -> VfsResult<()>;
}

/// An open file description, as front ends see it.
pub trait VfsFile: Send + Sync + 'static {
    /// Inode number.
    fn ino(&self) -> u64;

    /// What kind of file it is.
    fn kind(&self) -> Kind;

    /// `O_*` flags.
    fn flags(&self) -> i32;

    /// Changes the flags, as `F_SETFL` does, and the access mode.
    fn set_flags(&self, flags: i32);

    /// Whether it is open for reading.
    fn readable(&self) -> bool;

    /// Whether it is open for writing.
    fn writable(&self) -> bool;

    /// Whether it is a control file, whose contents change by themselves.
    fn is_control(&self) -> bool;

    /// Whether it has contents of which its size says nothing, so that no kernel may cache them.
    fn hides_size(&self) -> bool {
        false
    }

    /// Whether what a kernel has cached of its contents or entries is still true. Asked once, when
    /// the file was opened just now.
    fn keeps_cache(&self) -> bool {
        true
    }

    /// Whether writes return when they are durable (`O_SYNC`, or a flag of the inode).
    fn is_synchronous(&self) -> bool;

    /// Whether [`KernelCache::charges_first`] returned true for this file.
    fn is_charged(&self) -> bool;

    /// From now on the kernel reads and writes it by itself.
    fn set_passed_through(&self) {}

    /// Whether [`Vfs::flush`] does anything when a program closes a descriptor of it.
    fn needs_flush(&self) -> bool {
        true
    }
}
