//! A directory of the host behind a kernel that caches. It is changed behind the mount, so the
//! kernel collects nothing and believes what it knows for a moment only.

use crate::file::{HostFile, Opened};
use crate::vfs::HostVfs;
use hearth::{
    Attr, Caller, Errno, KernelCache, QuotaEventFile, Result, SetAttr, Vfs, VfsResult, is_control,
};
use rustix::fd::BorrowedFd;
use std::ops::Range;

impl KernelCache for HostVfs {
    fn is_changed_behind(&self) -> bool {
        true
    }

    fn pass_through(
        &self,
        caller: &Caller<'_>,
        file: &HostFile,
        register: &mut dyn FnMut(BorrowedFd<'_>) -> Result<i32>,
    ) -> Option<Result<i32>> {
        self.passes_through(caller, file, register)
    }

    fn owner_behind(&self, ino: u64) -> Option<u32> {
        let node = (!is_control(ino)).then(|| self.node(ino).ok());
        node.flatten().map(|node| self.counts_as(node.owner()))
    }

    fn counts_as(&self, uid: u32) -> u32 {
        self.tree.user_of(uid)
    }

    fn settle_times(&self, caller: &Caller<'_>, ino: u64, set: &SetAttr) -> VfsResult<Attr> {
        self.setattr(caller, ino, None, set)
    }

    fn charges_first(&self, _file: &HostFile) -> bool {
        false
    }

    fn read_for_cache(&self, file: &HostFile, off: u64, out: &mut [u8]) -> VfsResult<usize> {
        match &file.0 {
            Opened::Host(_) => self.read(file, off, out),
            Opened::Control(file) => self.control.read_for_cache(file, off, out),
        }
    }

    /// The host refuses by itself what does not append.
    fn appends_only(&self, _file: &HostFile) -> bool {
        false
    }

    fn strip_suidgid(&self, caller: &Caller<'_>, ino: u64) -> VfsResult<bool> {
        if is_control(ino) || caller.privileged() {
            return Ok(false);
        }
        Ok(self.tree.strip_suidgid(&self.node(ino)?)?)
    }

    fn write_back(
        &self,
        _caller: &Caller<'_>,
        ino: u64,
        off: u64,
        data: &[u8],
        _kill_suidgid: bool,
        _touches: bool,
    ) -> VfsResult<usize> {
        let node = self.node(ino)?;
        let written = self.write_back_node(&node, off, data)?;
        self.heat.wrote_back(&node, off, written);
        Ok(written)
    }

    fn lose(&self, ino: u64, lost: &[Range<u64>], errno: Errno) {
        let bytes = Some(lost.iter().map(|range| range.end - range.start).sum());
        let Ok(node) = self.node(ino) else {
            // What it was nobody knows any more, but that something is lost is said.
            let file = QuotaEventFile {
                ino,
                generation: None,
                path: None,
            };
            return self.events().report_lost(None, file, bytes, errno);
        };
        self.tell_lost(&node, bytes, errno);
    }
}
