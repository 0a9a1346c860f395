//! One file and a vector that must hold the same bytes, under random calls: zeroed ranges, which
//! fsx 0.3.2 does not know, among all that it does.

use crate::harness::Random;
use rustix::fs::{FallocateFlags, copy_file_range, fallocate, fsync};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Most bytes of the file.
const LENGTH: usize = 1 << 20;
/// Most bytes of a call.
const MOST: u64 = 128 << 10;

/// The file, open and mapped, and what must be in it.
pub struct Zeroing {
    path: PathBuf,
    file: File,
    map: Map,
    model: Vec<u8>,
    random: Random,
}

impl Zeroing {
    /// A new file at `path`.
    pub fn new(path: PathBuf, seed: u64) -> Zeroing {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        Zeroing {
            map: Map::new(&file),
            path,
            file,
            model: Vec::new(),
            random: Random(seed),
        }
    }

    /// Makes `steps` calls.
    pub fn run(&mut self, steps: u64) {
        for step in 0..steps {
            let call = self.step();
            let size = self.file.metadata().unwrap().len();
            assert_eq!(size, self.model.len() as u64, "step {step}, {call}");
        }
        assert!(
            std::fs::read(&self.path).unwrap() == self.model,
            "at the end"
        );
    }

    fn step(&mut self) -> &'static str {
        let start = self.random.below(LENGTH as u64) as usize;
        let length = 1 + self.random.below(MOST) as usize;
        let end = (start + length).min(LENGTH);
        // The part that is there.
        let here = start.min(self.model.len())..end.min(self.model.len());
        match self.random.below(40) {
            0..6 => {
                let bytes = self.random.bytes(end - start);
                self.file.write_all_at(&bytes, start as u64).unwrap();
                self.grow(end)[start..end].copy_from_slice(&bytes);
                "write"
            }
            6..12 => {
                let mut bytes = vec![1; end - start];
                let got = self.file.read_at(&mut bytes, start as u64).unwrap();
                assert!(bytes[..got] == self.model[here], "read at {start}");
                "read"
            }
            12..18 => {
                assert!(
                    self.map.read(&here) == self.model[here],
                    "mapped at {start}"
                );
                "mapped read"
            }
            18..24 => {
                let bytes = self.random.bytes(here.len());
                self.map.write(here.start, &bytes);
                self.model[here].copy_from_slice(&bytes);
                "mapped write"
            }
            24..27 => {
                self.allocate(FallocateFlags::ZERO_RANGE, start, end);
                self.grow(end)[start..end].fill(0);
                "zero"
            }
            27..30 => {
                let keep = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                self.allocate(keep, start, end);
                self.model[here].fill(0);
                "zero, size kept"
            }
            30..33 => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                self.allocate(punch, start, end);
                self.model[here].fill(0);
                "punch"
            }
            33..35 => {
                self.file.set_len(start as u64).unwrap();
                self.model.resize(start, 0);
                "truncate"
            }
            35..38 => self.copy(here),
            38 => {
                fsync(&self.file).unwrap();
                "fsync"
            }
            _ => {
                let file = File::options().read(true).write(true).open(&self.path);
                self.file = file.unwrap();
                self.map = Map::new(&self.file);
                "close and open"
            }
        }
    }

    fn allocate(&self, mode: FallocateFlags, start: usize, end: usize) {
        fallocate(&self.file, mode, start as u64, (end - start) as u64).unwrap();
    }

    fn grow(&mut self, end: usize) -> &mut [u8] {
        self.model.resize(self.model.len().max(end), 0);
        &mut self.model
    }

    /// Copies what is in `from` to somewhere else, where the two do not overlap.
    fn copy(&mut self, from: std::ops::Range<usize>) -> &'static str {
        let to = self.random.below((LENGTH - from.len()) as u64) as usize;
        if to < from.end && from.start < to + from.len() {
            return "no copy";
        }
        let (mut source, mut target) = (from.start as u64, to as u64);
        while source < from.end as u64 {
            let (old, new) = (Some(&mut source), Some(&mut target));
            let rest = from.end - *old.as_deref().unwrap() as usize;
            match copy_file_range(&self.file, old, &self.file, new, rest) {
                Ok(0) => panic!("nothing is copied of {from:?}"),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("copy of {from:?} to {to}: {error}"),
            }
        }
        if !from.is_empty() {
            let end = to + from.len();
            self.grow(end);
            self.model.copy_within(from, to);
        }
        "copy"
    }
}

/// A shared mapping of as many bytes as the file may get.
struct Map(*mut c_void);

impl Map {
    fn new(file: &File) -> Map {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping overlaps nothing.
        let map = unsafe {
            mmap(
                std::ptr::null_mut(),
                LENGTH,
                access,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        Map(map.unwrap())
    }

    /// What is mapped in a range inside the file.
    fn read(&self, range: &std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = vec![1; range.len()];
        // SAFETY: the range is mapped and inside the file, and no other thread changes it.
        unsafe {
            let from = self.0.cast::<u8>().add(range.start);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), range.len());
        }
        bytes
    }

    /// Stores into a range inside the file.
    fn write(&self, start: usize, bytes: &[u8]) {
        // SAFETY: as in `read`.
        unsafe {
            let to = self.0.cast::<u8>().add(start);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it is this mapping, and nothing refers to it.
        unsafe { munmap(self.0, LENGTH) }.unwrap();
    }
}
