//! A shared mapping that is written to.

// Each suite uses a part of this.
#![allow(dead_code)]

use super::PAGE;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, msync, munmap};
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

    /// A mapping of which the kernel reads only the page that is touched.
    pub(crate) fn page_by_page(file: &File, len: u64) -> Mapping {
        let mapping = Mapping::of(file, len);
        // SAFETY: advice changes no bytes.
        unsafe { madvise(mapping.start.cast(), mapping.len, Advice::Random) }.expect("advice");
        mapping
    }

    /// Maps a page of the file where something else was put in its place.
    pub(crate) fn restore(&mut self, file: &File, page: u64) {
        let (at, len) = (self.at(page).cast(), PAGE as usize);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: a page of this very mapping, which nobody else knows.
        let restored = unsafe { mmap(at, len, access, flags, file, page * PAGE) };
        restored.expect("a mapping");
        // SAFETY: advice changes no bytes.
        unsafe { madvise(at, len, Advice::Random) }.expect("advice");
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

    /// Where a page is.
    pub(crate) fn at(&self, page: u64) -> *mut u8 {
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
