//! What front ends call: a volume by inode numbers, names and handles, with the verbs of Linux.
//!
//! [`Vfs`] is the trait, [`KernelCache`] what a kernel that caches in front needs besides. The core
//! implements both ([`VolumeVfs`]). What a front end needs of a volume beside its verbs (scheduler,
//! tenants, statistics, control files, observers) it asks of [`crate::Volume`].

mod error;
mod kernel_cache;
mod volume;
mod volume_files;
mod volume_impl;
mod wait_mode;

pub use error::{BlockingWork, Miss, VfsError, VfsResult};
pub use kernel_cache::KernelCache;
pub use volume::VolumeVfs;
pub use wait_mode::{Blocking, NonBlocking};

use crate::attr::{Attr, DirEntry, FsXAttr, Kind, SetAttr, StatFs};
use crate::caller::Caller;
use crate::errno::Errno;
use crate::locks::{Interrupt, LockRequest};
use crate::ops::io::WriteAt;
use hearth_sync::primitive::Arc;

/// Operations by inode number, for front ends such as FUSE. No call blocks, unless it says so: one
/// that would returns [`VfsError::Miss`] and has changed nothing.
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

    /// Makes a call again until it misses nothing more. May block.
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

    /// The inode of `name` in `parent`.
    fn lookup(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> VfsResult<Attr>;

    /// One more reference on an inode, for listings that answer attributes.
    fn grab(&self, ino: u64) -> VfsResult<Attr>;

    /// Gives `n` references back.
    fn forget(&self, ino: u64, n: u64);

    /// Whether there are references that lookups took.
    fn is_known(&self, ino: u64) -> bool;

    /// Gives back every reference that lookups took: for the end of a front end whose kernel went
    /// without forgetting. No other front end may be using the volume by number.
    fn forget_all(&self);

    /// Attributes.
    fn getattr(&self, ino: u64) -> VfsResult<Attr>;

    /// Changes attributes and answers the new ones.
    fn setattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        file: Option<&Self::File>,
        set: &SetAttr,
    ) -> VfsResult<Attr>;

    /// Target of a symbolic link.
    fn readlink(&self, ino: u64) -> VfsResult<Box<[u8]>>;

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

    /// Gives inode `ino` the name `name` in `parent`; `ENOENT` if it has lost its last one, which a
    /// kernel that heard of it late may not know.
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

    /// Room of the volume, or of the limited project that `ino` is in.
    fn statfs(&self, ino: u64) -> VfsResult<StatFs>;

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

    /// Opens an inode; `flags` are `O_*`. Give it back with [`Vfs::release`].
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

    /// Reads at `off`; answers the bytes read.
    fn read(&self, file: &Self::File, off: u64, out: &mut [u8]) -> VfsResult<usize>;

    /// Writes where the flags that the kernel has of the file say; answers the bytes written.
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

    /// [`Vfs::read`] without an open file, for front ends that do not open.
    fn read_node(&self, ino: u64, off: u64, out: &mut [u8]) -> VfsResult<usize>;

    /// [`Vfs::write`] without an open file: nobody knows with which flags it was opened, and an
    /// append-only one is written to at its end.
    fn write_node(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        place: WriteAt,
        data: &[u8],
        kill_suidgid: bool,
    ) -> VfsResult<usize>;

    /// A descriptor was closed: the record locks of `owner` go.
    fn flush(&self, file: &Self::File, owner: u64) -> VfsResult<()>;

    /// The last close; `owner` held flocks through this file.
    fn release(&self, file: &Self::File, owner: Option<u64>);

    /// Returns when the file's contents, and unless `data_only` its attributes, are durable.
    fn fsync(&self, file: &Self::File, _data_only: bool) -> VfsResult<()>;

    /// Entries after `cookie`, `.` and `..` first, until `f` answers false for one, which then was
    /// not taken.
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

    /// Whether a [`Vfs::fallocate`] of a long range can as well be several of its parts: other
    /// modes take away what there is, move what lies behind, or have the backend forget the file.
    fn allocates_in_parts(&self, mode: i32) -> bool;

    /// Why an allocation of this range cannot be, if that is known before it is begun: it may not
    /// be, or there is no room for it.
    fn check_allocate(&self, file: &Self::File, mode: i32, off: u64, len: u64) -> VfsResult<()>;

    /// How much of `len` bytes a copy from here to there would do at most, or why it is none.
    fn check_copy(
        &self,
        from: (&Self::File, u64),
        to: (&Self::File, u64),
        len: u64,
    ) -> VfsResult<u64>;

    /// Copies between files; answers the bytes copied. A kernel has refused a target with
    /// `O_APPEND`.
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

    /// Takes or gives back a lock. Without `wait` a conflict is `EAGAIN`; with it the calling
    /// thread waits.
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

    /// Whether it is open for writing.
    fn writable(&self) -> bool;

    /// Whether it is a control file, whose contents change by themselves.
    fn is_control(&self) -> bool;

    /// Whether writes return when they are durable (`O_SYNC`, or a flag of the inode).
    fn is_synchronous(&self) -> bool;

    /// Whether [`KernelCache::charges_first`] said so.
    fn is_charged(&self) -> bool;
}
