//! [`Vfs`] for the core: each method is the inherent one of [`VolumeVfs`].

use super::error::{Miss, VfsResult};
use super::sync_point::{SyncPoint, WhenDurable};
use super::volume::VolumeVfs;
use super::wait_mode::NonBlocking;
use super::{Vfs, VfsFile};
use crate::attr::{Attr, DirEntry, FsXAttr, Kind, SetAttr, StatFs};
use crate::caller::Caller;
use crate::errno::Errno;
use crate::locks::{Interrupt, LockRequest};
use crate::ops::io::WriteAt;
use crate::ops::open::OpenFile;
use hearth_sync::primitive::Arc;

impl Vfs for VolumeVfs<NonBlocking> {
    type File = OpenFile;

    fn fetch(&self, miss: &Miss) -> Result<(), Errno> {
        self.volume().fetch(miss)
    }

    #[inline]
    fn sync_waits(&self) -> bool {
        VolumeVfs::sync_waits(self)
    }

    #[inline]
    fn lookup(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> VfsResult<Attr> {
        VolumeVfs::lookup(self, caller, parent, name)
    }

    #[inline]
    fn grab(&self, ino: u64) -> VfsResult<Attr> {
        VolumeVfs::grab(self, ino)
    }

    fn bring_listed(&self, shown: &[u64]) -> VfsResult<()> {
        VolumeVfs::bring_listed(self, shown)
    }

    #[inline]
    fn forget(&self, ino: u64, n: u64) {
        VolumeVfs::forget(self, ino, n)
    }

    #[inline]
    fn is_known(&self, ino: u64) -> bool {
        VolumeVfs::is_known(self, ino)
    }

    #[inline]
    fn forget_all(&self) {
        VolumeVfs::forget_all(self)
    }

    #[inline]
    fn getattr(&self, _caller: &Caller<'_>, ino: u64) -> VfsResult<Attr> {
        VolumeVfs::getattr(self, ino)
    }

    #[inline]
    fn setattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        file: Option<&OpenFile>,
        set: &SetAttr,
    ) -> VfsResult<Attr> {
        VolumeVfs::setattr(self, caller, ino, file, set)
    }

    #[inline]
    fn readlink(&self, _caller: &Caller<'_>, ino: u64) -> VfsResult<Box<[u8]>> {
        VolumeVfs::readlink(self, ino)
    }

    #[inline]
    fn mknod(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
    ) -> VfsResult<Attr> {
        VolumeVfs::mknod(self, caller, parent, name, kind, mode, rdev)
    }

    #[inline]
    fn mkdir(&self, caller: &Caller<'_>, parent: u64, name: &[u8], mode: u16) -> VfsResult<Attr> {
        VolumeVfs::mkdir(self, caller, parent, name, mode)
    }

    #[inline]
    fn symlink(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> VfsResult<Attr> {
        VolumeVfs::symlink(self, caller, parent, name, target)
    }

    #[inline]
    fn link(&self, caller: &Caller<'_>, ino: u64, parent: u64, name: &[u8]) -> VfsResult<Attr> {
        VolumeVfs::link(self, caller, ino, parent, name)
    }

    #[inline]
    fn unlink(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> VfsResult<()> {
        VolumeVfs::unlink(self, caller, parent, name)
    }

    #[inline]
    fn rmdir(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> VfsResult<()> {
        VolumeVfs::rmdir(self, caller, parent, name)
    }

    #[inline]
    fn rename(
        &self,
        caller: &Caller<'_>,
        from: u64,
        name: &[u8],
        to: u64,
        new_name: &[u8],
        flags: u32,
    ) -> VfsResult<()> {
        VolumeVfs::rename(self, caller, from, name, to, new_name, flags)
    }

    #[inline]
    fn syncfs(&self) -> VfsResult<()> {
        VolumeVfs::syncfs(self)
    }

    #[inline]
    fn statfs(&self, _caller: &Caller<'_>, ino: u64) -> VfsResult<StatFs> {
        VolumeVfs::statfs(self, ino)
    }

    #[inline]
    fn access(&self, caller: &Caller<'_>, ino: u64, mask: u32) -> VfsResult<()> {
        VolumeVfs::access(self, caller, ino, mask)
    }

    #[inline]
    fn getxattr(&self, caller: &Caller<'_>, ino: u64, name: &[u8]) -> VfsResult<Box<[u8]>> {
        VolumeVfs::getxattr(self, caller, ino, name)
    }

    #[inline]
    fn setxattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        name: &[u8],
        value: &[u8],
        flags: i32,
        kill_sgid: bool,
    ) -> VfsResult<()> {
        VolumeVfs::setxattr(self, caller, ino, name, value, flags, kill_sgid)
    }

    #[inline]
    fn listxattr(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<Vec<u8>> {
        VolumeVfs::listxattr(self, caller, ino)
    }

    #[inline]
    fn removexattr(&self, caller: &Caller<'_>, ino: u64, name: &[u8]) -> VfsResult<()> {
        VolumeVfs::removexattr(self, caller, ino, name)
    }

    #[inline]
    fn get_flags(&self, ino: u64) -> VfsResult<u32> {
        VolumeVfs::get_flags(self, ino)
    }

    #[inline]
    fn set_flags(&self, caller: &Caller<'_>, ino: u64, flags: u32) -> VfsResult<()> {
        VolumeVfs::set_flags(self, caller, ino, flags)
    }

    #[inline]
    fn get_fsxattr(&self, ino: u64) -> VfsResult<FsXAttr> {
        VolumeVfs::get_fsxattr(self, ino)
    }

    #[inline]
    fn set_fsxattr(&self, caller: &Caller<'_>, ino: u64, new: &FsXAttr) -> VfsResult<()> {
        VolumeVfs::set_fsxattr(self, caller, ino, new)
    }

    #[inline]
    fn open(&self, caller: &Caller<'_>, ino: u64, flags: i32) -> VfsResult<Arc<OpenFile>> {
        VolumeVfs::open(self, caller, ino, flags)
    }

    #[inline]
    fn create(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        mode: u16,
        flags: i32,
    ) -> VfsResult<(Attr, Arc<OpenFile>)> {
        VolumeVfs::create(self, caller, parent, name, mode, flags)
    }

    #[inline]
    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        mode: u16,
        flags: i32,
    ) -> VfsResult<(Attr, Arc<OpenFile>)> {
        VolumeVfs::tmpfile(self, caller, parent, mode, flags)
    }

    #[inline]
    fn read(&self, file: &OpenFile, off: u64, out: &mut [u8]) -> VfsResult<usize> {
        VolumeVfs::read(self, file, off, out)
    }

    #[inline]
    fn write(
        &self,
        caller: &Caller<'_>,
        file: &OpenFile,
        place: WriteAt,
        data: &[u8],
        kill_suidgid: bool,
    ) -> VfsResult<usize> {
        VolumeVfs::write(self, caller, file, place, data, kill_suidgid)
    }

    #[inline]
    fn read_node(&self, ino: u64, off: u64, out: &mut [u8]) -> VfsResult<usize> {
        VolumeVfs::read_node(self, ino, off, out)
    }

    #[inline]
    fn write_node(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        place: WriteAt,
        data: &[u8],
        kill_suidgid: bool,
    ) -> VfsResult<usize> {
        VolumeVfs::write_node(self, caller, ino, place, data, kill_suidgid)
    }

    #[inline]
    fn flush(&self, file: &OpenFile, owner: u64) -> VfsResult<()> {
        VolumeVfs::flush(self, file, owner)
    }

    #[inline]
    fn release(&self, file: &OpenFile, owner: Option<u64>) {
        VolumeVfs::release(self, file, owner)
    }

    #[inline]
    fn fsync(&self, file: &OpenFile, _data_only: bool) -> VfsResult<()> {
        VolumeVfs::fsync(self, file, _data_only)
    }

    fn is_durable_but_for_attrs(&self, file: &OpenFile) -> bool {
        VolumeVfs::is_durable_but_for_attrs(self, file)
    }

    fn attr_changes(&self, file: &OpenFile) -> Option<u32> {
        VolumeVfs::attr_changes(self, file)
    }

    fn begin_fsync(&self, file: &OpenFile) -> Option<SyncPoint> {
        VolumeVfs::begin_fsync(self, file)
    }

    fn when_durable(&self, point: SyncPoint, then: WhenDurable) {
        VolumeVfs::when_durable(self, point, then);
    }

    #[inline]
    fn readdir(
        &self,
        file: &OpenFile,
        cookie: u64,
        f: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> VfsResult<()> {
        VolumeVfs::readdir(self, file, cookie, f)
    }

    #[inline]
    fn lseek(&self, file: &OpenFile, off: i64, whence: i32) -> VfsResult<u64> {
        VolumeVfs::lseek(self, file, off, whence)
    }

    #[inline]
    fn fallocate(
        &self,
        caller: &Caller<'_>,
        file: &OpenFile,
        mode: i32,
        off: u64,
        len: u64,
    ) -> VfsResult<()> {
        VolumeVfs::fallocate(self, caller, file, mode, off, len)
    }

    #[inline]
    fn allocates_in_parts(&self, mode: i32) -> bool {
        VolumeVfs::allocates_in_parts(self, mode)
    }

    #[inline]
    fn check_allocate(&self, file: &OpenFile, mode: i32, off: u64, len: u64) -> VfsResult<()> {
        VolumeVfs::check_allocate(self, file, mode, off, len)
    }

    #[inline]
    fn check_copy(&self, from: (&OpenFile, u64), to: (&OpenFile, u64), len: u64) -> VfsResult<u64> {
        VolumeVfs::check_copy(self, from, to, len)
    }

    #[inline]
    fn copy_file_range(
        &self,
        caller: &Caller<'_>,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        len: u64,
        flags: u64,
    ) -> VfsResult<u64> {
        VolumeVfs::copy_file_range(self, caller, from, to, len, flags)
    }

    #[inline]
    fn getlk(&self, file: &OpenFile, request: &LockRequest) -> VfsResult<Option<LockRequest>> {
        VolumeVfs::getlk(self, file, request)
    }

    #[inline]
    fn setlk(
        &self,
        file: &OpenFile,
        request: &LockRequest,
        wait: Option<&Interrupt>,
    ) -> VfsResult<()> {
        VolumeVfs::setlk(self, file, request, wait)
    }
}

impl VfsFile for OpenFile {
    fn ino(&self) -> u64 {
        OpenFile::ino(self)
    }

    fn kind(&self) -> Kind {
        OpenFile::kind(self)
    }

    fn flags(&self) -> i32 {
        OpenFile::flags(self)
    }

    fn set_flags(&self, flags: i32) {
        OpenFile::set_flags(self, flags);
    }

    fn readable(&self) -> bool {
        OpenFile::readable(self)
    }

    fn writable(&self) -> bool {
        OpenFile::writable(self)
    }

    fn is_control(&self) -> bool {
        OpenFile::is_control(self)
    }

    fn is_synchronous(&self) -> bool {
        OpenFile::is_synchronous(self)
    }

    fn is_charged(&self) -> bool {
        OpenFile::is_charged(self)
    }
}
