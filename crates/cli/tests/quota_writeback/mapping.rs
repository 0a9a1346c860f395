//! A shared mapping that is written to.

use super::PAGE;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::File;

pub(crate) struct Mapping {
    start: *mut u8,
    len: usize,
}

impl Mapping {
    pub(crate) fn of(file: &File, len: u64) -> Mapping {
        let len = len as usize;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at an address of the kernel's choice, so it overlaps nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0) };
        Mapping {
            start: start.expect("a mapping").cast(),
            len,
        }
    }

    /// Fills a page. Without room it does not return: the process is ended by SIGBUS.
    pub(crate) fn store(&mut self, page: u64, tag: u8) {
        let at = self.at(page);
        for n in 0..PAGE as usize {
            // SAFETY: inside the mapping, see `at`; volatile, so that it happens now.
            unsafe { at.add(n).write_volatile(tag) };
        }
    }

    /// The first byte of a page.
    pub(crate) fn load(&mut self, page: u64) -> u8 {
        // SAFETY: inside the mapping, see `at`.
        unsafe { self.at(page).read_volatile() }
    }

    pub(crate) fn sync(&mut self) -> rustix::io::Result<()> {
        // SAFETY: the whole of a mapping that is there until drop.
        unsafe { msync(self.start.cast(), self.len, MsyncFlags::SYNC) }
    }

    fn at(&self, page: u64) -> *mut u8 {
        let offset = (page * PAGE) as usize;
        assert!(offset + PAGE as usize <= self.len);
        // SAFETY: asserted to lie inside the mapping.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `of`, and nothing points into it any more.
        unsafe { munmap(self.start.cast(), self.len) }.expect("a mapping");
    }
}
