//! [`KernelCache`] for the core: each method is the inherent one of [`VolumeVfs`].

use super::KernelCache;
use crate::attr::{Attr, SetAttr};
use crate::caller::Caller;
use crate::errno::Errno;
use crate::ops::open::OpenFile;
use crate::vfs::error::VfsResult;
use crate::vfs::volume::VolumeVfs;
use crate::vfs::wait_mode::NonBlocking;
use std::ops::Range;

impl KernelCache for VolumeVfs<NonBlocking> {
    #[inline]
    fn known_files(&self) -> Vec<u64> {
        VolumeVfs::known_files(self)
    }

    #[inline]
    fn settle_times(&self, caller: &Caller<'_>, ino: u64, set: &SetAttr) -> VfsResult<Attr> {
        VolumeVfs::settle_times(self, caller, ino, set)
    }

    #[inline]
    fn charges_first(&self, file: &OpenFile) -> bool {
        VolumeVfs::charges_first(self, file)
    }

    #[inline]
    fn read_for_cache(&self, file: &OpenFile, off: u64, out: &mut [u8]) -> VfsResult<usize> {
        VolumeVfs::read_for_cache(self, file, off, out)
    }

    fn read_through(&self, file: &OpenFile, off: u64, out: &mut [u8]) -> VfsResult<usize> {
        VolumeVfs::read_through(self, file, off, out)
    }

    #[inline]
    fn appends_only(&self, file: &OpenFile) -> bool {
        VolumeVfs::appends_only(self, file)
    }

    #[inline]
    fn strip_suidgid(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<bool> {
        VolumeVfs::strip_suidgid(self, caller, ino)
    }

    #[inline]
    fn write_back(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        off: u64,
        data: &[u8],
        kill_suidgid: bool,
        touches: bool,
    ) -> VfsResult<usize> {
        VolumeVfs::write_back(self, caller, ino, off, data, kill_suidgid, touches)
    }

    fn lose(&self, ino: u64, lost: &[Range<u64>], errno: Errno) {
        VolumeVfs::lose(self, ino, lost, errno);
    }
}
